#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/identifiers.h"

namespace uroce::engine {

struct QueuePairEntry;

/// The members of one group, in the order in which they came.
struct MulticastGroup {
  Gid address;
  std::vector<QueuePairEntry*> members;
  uint64_t pollers = 0;  // bit i: poller i has members
};

/// Which queue pairs of a device are members of which groups. A table is never changed: each change makes a
/// new one, so that pollers look things up without a lock.
class MulticastGroups {
 public:
  struct Limits {
    size_t groups = 0;
    size_t members = 0;  // of one group
    size_t total = 0;    // of all groups
  };
  /// The groups as they were: to be destroyed after a grace period.
  using Retired = std::unique_ptr<const std::vector<MulticastGroup>>;

  explicit MulticastGroups(const Limits& limits);
  ~MulticastGroups();
  MulticastGroups(const MulticastGroups&) = delete;
  MulticastGroups& operator=(const MulticastGroups&) = delete;

  // Control path, under the device's lock.
  /// 0 also for a member; ENOMEM at a limit.
  int attach(const Gid& group, QueuePairEntry& entry, Retired& retired);
  /// EINVAL: no member of it.
  int detach(const Gid& group, QueuePairEntry& entry, Retired& retired);
  /// From all groups.
  void detach_all(QueuePairEntry& entry, Retired& retired);
  /// How many groups the queue pair is a member of.
  [[nodiscard]] size_t memberships(const QueuePairEntry& entry) const;

  // Pollers, during a turn, until the end of which what is found lives.
  [[nodiscard]] const MulticastGroup* find(const Gid& group) const;
  [[nodiscard]] bool empty() const;

 private:
  using Table = std::vector<MulticastGroup>;  // in the order of addresses

  void replace(Table table, Retired& retired);

  const Limits limits_;
  std::atomic<const Table*> table_;
};

}  // namespace uroce::engine
