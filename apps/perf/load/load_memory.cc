#include "apps/perf/load/load_memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "apps/perf/ends/objects.h"
#include "apps/perf/plan/layout.h"
#include "client/failure.h"
#include "client/pattern.h"

namespace uroce::perf {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kSeed = 0x10AD;  // of the bytes of all messages

uint64_t size_max(const Load& load) { return std::ranges::max_element(load.mix, {}, &MixPart::size)->size; }

uint64_t whole_pages(uint64_t bytes) { return (bytes + kPageBytes - 1) / kPageBytes * kPageBytes; }

}  // namespace

LoadMemory::LoadMemory(const client::VerbsDevice& device, ibv_pd* domain, const Plan& plan, const Load& load,
                       uint32_t receives)

    : size_(size_max(load)), counters_(load.queue_pairs), lead_(lead_of(plan.service)) {
  const Layout layout = Layout::of(size_, load.queue_pairs * load.depth, lead_);
  stride_ = layout.stride;
  slots_ = layout.slots;
  receive_slots_ = Layout::of(size_, receives * load.queue_pairs, lead_).slots;
  area_ = whole_pages(layout.area_bytes());
  fetched_ = 2 * area_ + whole_pages(load.queue_pairs * 8u);
  receives_ = fetched_ + whole_pages(load.queue_pairs * 8u);
  bytes_ = receives_ + whole_pages(receive_slots_ * stride_);
  buffer_ = zeroed(bytes_);
  region_ = region_on(device, domain, buffer_, bytes_);
}

void LoadMemory::tell(Address& address) const {
  address.remote_key = region_->rkey;
  address.source = at(0);
  address.target = at(area_);
}

void LoadMemory::prepare() {
  std::byte* const all = buffer_.get();
  std::memset(all + area_, static_cast<int>(client::kPoison), area_);
  std::memset(all + 2 * area_, 0, fetched_ - 2 * area_);
  std::memset(all + receives_, static_cast<int>(client::kPoison), bytes_ - receives_);
  for (uint64_t slot = 0; slot < slots_; ++slot) client::fill_pattern({all + offset(slot), size_}, kSeed);
}

uint64_t LoadMemory::verify(uint64_t atomics) const {
  uint64_t sum = 0;
  for (uint64_t i = 0; i < counters_; ++i) {
    uint64_t counted = 0;
    std::memcpy(&counted, buffer_.get() + 2 * area_ + i * sizeof counted, sizeof counted);
    sum += counted;
  }
  if (sum != atomics)
    throw client::Failure(fmt::format("the counters say {} after {} atomics", sum, atomics));
  return verify_slots(area_, slots_) + verify_slots(receives_, receive_slots_);
}

/// Each slot begins with bytes of a message, and is untouched behind them. Bytes of a message may look like
/// poison: those at its end count as untouched.
uint64_t LoadMemory::verify_slots(uint64_t area, uint64_t slots) const {
  const std::byte* const sent = buffer_.get() + lead_;
  uint64_t compared = 0;
  for (uint64_t slot = 0; slot < slots; ++slot) {
    const std::byte* const got = buffer_.get() + area + slot * stride_ + lead_;
    uint64_t end = stride_ - lead_;
    while (end > 0 && got[end - 1] == client::kPoison) --end;
    if (end > size_)
      throw client::Failure(
          fmt::format("byte {} of slot {} was written behind the message's end", end - 1, slot));
    const auto differs = std::mismatch(got, got + end, sent);
    if (differs.first != got + end)
      throw client::Failure(
          fmt::format("byte {} of slot {} is not what was sent", differs.first - got, slot));
    compared += end;
  }
  return compared;
}

}  // namespace uroce::perf
