#include "wire/flow.h"

#include <array>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::wire {
namespace {

/// Ones over what all frames of a flow have in common: everything but lengths, identification and the header
/// checksum. By words, the last one of which overlaps.
constexpr size_t kWord = sizeof(uint64_t);
constexpr size_t kLastWord = kPlainHeaderBytes - kWord;

constexpr std::array<std::byte, kPlainHeaderBytes> make_common_mask() {
  std::array<std::byte, kPlainHeaderBytes> mask{};
  mask.fill(std::byte{0xFF});
  for (const unsigned ip : {2u, 3u, 4u, 5u, 10u, 11u}) mask[kEthernetBytes + ip] = std::byte{0};
  for (const unsigned udp : {4u, 5u}) mask[kEthernetBytes + kIpv4Bytes + udp] = std::byte{0};
  return mask;
}
constexpr std::array<std::byte, kPlainHeaderBytes> kCommon = make_common_mask();

bool have_all_in_common(const std::byte* a, const std::byte* b) {
  const auto differences = [&](size_t at) {
    return (load_be64(a + at) ^ load_be64(b + at)) & load_be64(kCommon.data() + at);
  };
  uint64_t all = differences(kLastWord);
  for (size_t at = 0; at < kLastWord; at += kWord) all |= differences(at);
  return all == 0;
}

}  // namespace

size_t ip_bytes_if_varied(const std::byte* frame, const std::byte* before) {
  const std::byte* const ip = frame + kEthernetBytes;
  const size_t total = load_be16(ip + 2);
  const bool alike = have_all_in_common(frame, before) && total >= kIpv4Bytes + kUdpBytes &&
                     load_be16(ip + kIpv4Bytes + 4) == total - kIpv4Bytes &&
                     fold_sum(add_words({ip, kIpv4Bytes})) == 0xFFFF;
  return alike ? total : 0;
}

}  // namespace uroce::wire
