#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/threads/rcu_pointer.h"
#include "base/values/identifiers.h"

namespace uroce::engine {

struct PollerQp;

/// The members of one group, in the order in which they came.
struct MulticastGroup {
  Gid address;
  std::vector<PollerQp*> members;
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
  using Table = std::vector<MulticastGroup>;  // in the order of addresses
  using Retired = RcuPointer<Table>::Retired;

  explicit MulticastGroups(const Limits& limits);

  // Control path, under the device's lock.
  /// Makes the queue pair a member of the group. 0, also if it is one already, or ENOMEM: a limit is reached.
  int attach(const Gid& group, PollerQp& entry, Retired& retired);
  /// Ends the membership. 0, or EINVAL: the queue pair is no member of the group.
  int detach(const Gid& group, PollerQp& entry, Retired& retired);
  /// Ends the queue pair's memberships in all groups.
  void detach_all(PollerQp& entry, Retired& retired);
  [[nodiscard]] bool has_members(const Gid& group) const;
  /// How many groups the queue pair is a member of.
  [[nodiscard]] size_t memberships(const PollerQp& entry) const;

  // Pollers, during a turn, until the end of which what is found lives.
  [[nodiscard]] const MulticastGroup* find(const Gid& group) const;
  [[nodiscard]] bool empty() const;

 private:
  void replace(Table table, Retired& retired);

  const Limits limits_;
  RcuPointer<Table> table_;
};

}  // namespace uroce::engine
