#include <cstdint>
#include <span>

#include "port_property.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::check_port(std::as_bytes(std::span(data, size)));
  return 0;
}
