#pragma once

#include <memory>
#include <mutex>

#include "base/threads/rcu_pointer.h"
#include "base/values/identifiers.h"
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
  using Retired = RcuPointer<Snapshot>::Retired;

  static constexpr uint64_t kFirst = 1;  // version

  AddressTable(MacAddress mac, net::GidTable gids, bool beside_kernel)
      : mac_(mac),
        beside_kernel_(beside_kernel),
        now_(std::make_unique<const Snapshot>(mac, std::move(gids), beside_kernel, kFirst)) {}

  /// Pollers, during a turn, until the end of which it lives.
  [[nodiscard]] const Snapshot& seen() const { return now_.read(); }

  /// Any thread.
  [[nodiscard]] net::GidTable gids() const {
    const std::lock_guard guard(mutex_);  // keeps the snapshot from being replaced, and thus from ending
    return now_.current().gids;
  }
  /// One thread at a time.
  [[nodiscard]] Retired replace(net::GidTable gids) {
    const std::lock_guard guard(mutex_);
    const uint64_t version = now_.current().version + 1;
    return now_.replace(std::make_unique<const Snapshot>(mac_, std::move(gids), beside_kernel_, version));
  }

 private:
  const MacAddress mac_;
  const bool beside_kernel_;
  mutable std::mutex mutex_;
  RcuPointer<Snapshot> now_;
};

}  // namespace uroce::engine
