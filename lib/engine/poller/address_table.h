#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "base/identifiers.h"
#include "net/demux.h"
#include "net/gid_table.h"

namespace uroce::engine {

/// The GIDs of a device, and the demultiplexer that knows them. Pollers look at them without a lock: what
/// they see is never changed but replaced, and what is replaced lives until a grace period has passed.
class AddressTable {
 public:
  /// The addresses at one moment.
  struct Snapshot {
    Snapshot(MacAddress mac, net::GidTable table, bool beside_kernel, uint64_t number)
        : version(number), gids(std::move(table)), demux(mac, gids, beside_kernel) {}
    Snapshot(const Snapshot&) = delete;
    Snapshot& operator=(const Snapshot&) = delete;
    const uint64_t version;  // grows with each change
    const net::GidTable gids;
    const net::Demux demux;
  };
  /// The addresses as they were: to be destroyed after a grace period.
  using Retired = std::unique_ptr<const Snapshot>;

  static constexpr uint64_t kFirst = 1;  // version

  AddressTable(MacAddress mac, net::GidTable gids, bool beside_kernel)
      : mac_(mac),
        beside_kernel_(beside_kernel),
        now_(new Snapshot(mac, std::move(gids), beside_kernel, kFirst)) {}

  // No other thread is left: relaxed.
  ~AddressTable() { delete now_.load(std::memory_order_relaxed); }
  AddressTable(const AddressTable&) = delete;
  AddressTable& operator=(const AddressTable&) = delete;

  /// Pollers, during a turn, until the end of which it lives. Pairs with replace().
  [[nodiscard]] const Snapshot& seen() const { return *now_.load(std::memory_order_acquire); }

  /// Any thread.
  [[nodiscard]] net::GidTable gids() const {
    const std::lock_guard guard(mutex_);  // keeps the snapshot from being replaced, and thus from ending
    return now_.load(std::memory_order_relaxed)->gids;
  }
  /// One thread at a time.
  [[nodiscard]] Retired replace(net::GidTable gids) {
    const std::lock_guard guard(mutex_);
    const uint64_t version = now_.load(std::memory_order_relaxed)->version + 1;
    auto next = std::make_unique<const Snapshot>(mac_, std::move(gids), beside_kernel_, version);
    // Pairs with seen(): the snapshot is whole before it is seen.
    return Retired(now_.exchange(next.release(), std::memory_order_acq_rel));
  }

 private:
  const MacAddress mac_;
  const bool beside_kernel_;
  mutable std::mutex mutex_;
  std::atomic<const Snapshot*> now_;
};

}  // namespace uroce::engine
