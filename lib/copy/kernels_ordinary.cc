#include <cstdint>
#include <cstring>

#include "copy/kernels.h"

namespace uroce::copy {
namespace {

constexpr size_t kLine = 64;

/// An aligned word is stored at once, and so within one cache line. volatile: as written, and in this order.
template <typename Word>
void store_word(std::byte* to, const std::byte* from) {
  using AnyWord __attribute__((may_alias)) = Word;
  Word word;
  std::memcpy(&word, from, sizeof(word));
  *reinterpret_cast<volatile AnyWord*>(to) = word;
}

template <typename Word>
bool fits(const std::byte* to, size_t length) {
  return length >= sizeof(Word) && reinterpret_cast<uintptr_t>(to) % sizeof(Word) == 0;
}

}  // namespace

void copy_ordinary(std::byte* to, const std::byte* from, size_t length) { std::memcpy(to, from, length); }

void copy_string(std::byte* to, const std::byte* from, size_t length) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

void copy_ascending(std::byte* to, const std::byte* from, size_t length) {
  // A whole line, as most tails are.
  if (length == kLine && reinterpret_cast<uintptr_t>(to) % sizeof(uint64_t) == 0) [[likely]] {
    for (size_t at = 0; at < kLine; at += sizeof(uint64_t)) store_word<uint64_t>(to + at, from + at);
    return;
  }
  while (length > 0) {
    size_t step = 1;
    if (fits<uint64_t>(to, length)) {
      store_word<uint64_t>(to, from);
      step = 8;
    } else if (fits<uint32_t>(to, length)) {
      store_word<uint32_t>(to, from);
      step = 4;
    } else if (fits<uint16_t>(to, length)) {
      store_word<uint16_t>(to, from);
      step = 2;
    } else {
      store_word<uint8_t>(to, from);
    }
    to += step;
    from += step;
    length -= step;
  }
}

}  // namespace uroce::copy
