#pragma once

#include <cstdint>

#include "apps/perf/ends/connection.h"
#include "apps/perf/plan/load.h"

namespace uroce::perf {

/// The registered memory of an end of a load. All messages carry the same bytes, a longer one more of them:
/// so what arrived is right or wrong whichever message came last to a place.
class LoadMemory {
 public:
  LoadMemory(const client::VerbsDevice& device, ibv_pd* domain, const Plan& plan, const Load& load,
             uint32_t receives);

  [[nodiscard]] uint32_t key() const { return region_->lkey; }
  /// What a peer must know.
  void tell(Address& address) const;

  // Where the slot for message `number` is, at this end and at the peer's.
  [[nodiscard]] uint64_t source(uint64_t number) const { return at(0) + offset(number); }
  [[nodiscard]] uint64_t target(uint64_t number) const { return at(area_) + offset(number); }
  [[nodiscard]] uint64_t source(uint64_t number, const Address& peer) const {
    return peer.source + offset(number);
  }
  [[nodiscard]] uint64_t target(uint64_t number, const Address& peer) const {
    return peer.target + offset(number);
  }
  /// The counter that atomics of a queue pair add to, behind the peer's target, and where its old value goes.
  [[nodiscard]] uint64_t counter(uint32_t queue_pair, const Address& peer) const {
    return peer.target + area_ + queue_pair * 8u;
  }
  [[nodiscard]] uint64_t fetched(uint32_t queue_pair) const { return at(fetched_) + queue_pair * 8u; }
  /// A message goes there, behind `lead` bytes of UD's header.
  [[nodiscard]] uint64_t receive(uint64_t number) const {
    return at(receives_) + number % receive_slots_ * stride_ + lead_;
  }

  /// Before a run: sources have their bytes, counters are 0, and all else is poison.
  void prepare();
  /// After it: throws Failure at a byte that no message can have left, and where the counters are not the sum
  /// of `atomics` that the peer performed. Returns the bytes compared.
  [[nodiscard]] uint64_t verify(uint64_t atomics) const;

 private:
  [[nodiscard]] uint64_t at(uint64_t byte) const { return reinterpret_cast<uint64_t>(buffer_.get()) + byte; }
  [[nodiscard]] uint64_t offset(uint64_t number) const { return number % slots_ * stride_ + lead_; }
  [[nodiscard]] uint64_t verify_slots(uint64_t area, uint64_t slots) const;

  uint64_t size_;
  uint64_t counters_;  // how many
  uint64_t lead_;
  uint64_t stride_;
  uint64_t slots_;
  uint64_t receive_slots_;
  // Offsets: sources begin at 0, targets at area_, and counters lie behind the targets.
  uint64_t area_;
  uint64_t fetched_;
  uint64_t receives_;
  uint64_t bytes_;
  client::Buffer buffer_;
  client::MemoryRegion region_;
};

}  // namespace uroce::perf
