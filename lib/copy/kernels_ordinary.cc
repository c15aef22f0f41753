#include <cstring>

#include "copy/kernels.h"

namespace uroce::copy {

void copy_ordinary(std::byte* to, const std::byte* from, size_t length) { std::memcpy(to, from, length); }

void copy_string(std::byte* to, const std::byte* from, size_t length) {
  asm volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(length) : : "memory");
}

}  // namespace uroce::copy
