#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "parse_property.h"
#include "wire/mad.h"

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

/// Mostly with the length and the head of a message of the communication manager: a blind mutation almost
/// never has them, and would end there.
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  const size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 == 0 || max_size < uroce::wire::kMadBytes) return mutated;
  std::fill(data + mutated, data + std::max(mutated, uroce::wire::kMadBytes), 0);
  uroce::wire::write_mad_header(reinterpret_cast<std::byte*>(data),
                                {.management_class = 7,
                                 .class_version = 2,
                                 .method = 3,
                                 .transaction_id = seed,
                                 .attribute = static_cast<uint16_t>(0x10 + seed / 8 % 11),
                                 .modifier = seed});
  return uroce::wire::kMadBytes;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::check_mad(std::as_bytes(std::span(data, size)));
  return 0;
}
}
