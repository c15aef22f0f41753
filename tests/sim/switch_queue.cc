#include "tests/sim/switch_queue.h"

#include <algorithm>

#include "wire/big_endian.h"
#include "wire/internet_checksum.h"

namespace uroce::sim {

namespace {

constexpr size_t kIp = 14;
constexpr size_t kIpv4Bytes = 20;

/// Untagged IPv4. False: it is not ECN-capable.
bool mark(std::vector<std::byte>& frame) {
  std::byte& type_of_service = frame[kIp + 1];
  if ((type_of_service & std::byte{3}) == std::byte{0}) return false;
  type_of_service |= std::byte{3};
  wire::store_be16(frame.data() + kIp + 10, 0);
  const uint16_t sum = wire::fold_sum(wire::add_words({frame.data() + kIp, kIpv4Bytes}));
  wire::store_be16(frame.data() + kIp + 10, static_cast<uint16_t>(~__builtin_bswap16(sum)));
  return true;
}

bool is_ipv4(const std::vector<std::byte>& frame) {
  return frame.size() > kIp + kIpv4Bytes && frame[12] == std::byte{8} && frame[13] == std::byte{0};
}

}  // namespace

bool SwitchQueue::pass(Frame& frame, Random& random) {
  const Duration wait = std::max(free_ - frame.arrival, Duration{});
  const int64_t bytes = wait.ns * 1000 / options_.picoseconds_per_byte;
  const auto size = static_cast<int64_t>(frame.bytes.size());
  seen_.push_back(bytes);
  if (bytes + size > options_.bytes_max) {
    ++lost_;
    return false;
  }
  if (is_ipv4(frame.bytes) && marks(bytes, random) && mark(frame.bytes)) ++marked_;
  frame.arrival = frame.arrival + wait + nanoseconds(size * options_.picoseconds_per_byte / 1000);
  free_ = frame.arrival;
  return true;
}

bool SwitchQueue::marks(int64_t bytes, Random& random) const {
  if (bytes >= options_.mark_most) return true;
  if (bytes <= options_.mark_least) return false;
  constexpr uint64_t kFine = 1'000'000;
  const auto share = static_cast<uint64_t>((bytes - options_.mark_least) * int64_t{kFine} /
                                           (options_.mark_most - options_.mark_least));
  return random.chance(share * options_.most_of_100 / 100, kFine);
}

void SwitchQueue::begin_to_count() {
  seen_.clear();
  marked_ = lost_ = 0;
}

int64_t SwitchQueue::bytes_p99() const {
  if (seen_.empty()) return 0;
  std::vector<int64_t> sorted = seen_;
  const size_t at = sorted.size() * 99 / 100;
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<ptrdiff_t>(at), sorted.end());
  return sorted[at];
}

}  // namespace uroce::sim
