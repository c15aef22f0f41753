#include <cstddef>
#include <cstdint>
#include <span>

#include "parse_property.h"
#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::fuzz {
namespace {

using wire::load_be16;
using wire::store_be16;

/// Makes the IP and UDP lengths and the IPv4 checksum agree with the frame: a blind mutation almost never
/// does, and would end there without having seen the layers behind.
void make_plausible(std::span<std::byte> frame) {
  if (frame.size() < 14 + 4 + 40 + 8) return;
  std::byte* ip = frame.data() + (load_be16(frame.data() + 12) == 0x8100 ? 18 : 14);
  const auto left = static_cast<uint16_t>(frame.data() + frame.size() - ip);
  const bool ipv4 = load_be16(ip - 2) == 0x0800;
  std::byte* const udp = ip + (ipv4 ? 20 : 40);
  if (ipv4) {
    store_be16(ip + 2, left);
    store_be16(ip + 10, 0);
    const uint16_t sum = wire::fold_sum(wire::add_words({ip, 20}));
    store_be16(ip + 10, static_cast<uint16_t>(~__builtin_bswap16(sum)));
  } else {
    store_be16(ip + 4, static_cast<uint16_t>(left - 40));
  }
  store_be16(udp + 4, static_cast<uint16_t>(left - (udp - ip)));
  store_be16(udp + 6, 0);
}

}  // namespace
}  // namespace uroce::fuzz

extern "C" {

size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  const size_t mutated = LLVMFuzzerMutate(data, size, max_size);
  if (seed % 8 != 0) uroce::fuzz::make_plausible(std::as_writable_bytes(std::span(data, mutated)));
  return mutated;
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  uroce::fuzz::check_frame(std::as_bytes(std::span(data, size)));
  return 0;
}
}
