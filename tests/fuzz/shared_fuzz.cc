#include <cstdint>
#include <span>

#include "shared_property.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::check_shared(std::as_bytes(std::span(data, size)));
  return 0;
}
