#include "engine/poller/multicast_groups.h"

#include <algorithm>
#include <cerrno>

#include "engine/poller/queue_pair_entry.h"

namespace uroce::engine {

namespace {

/// Where the group is in the table, or would be.
template <typename Table>
auto place_of(Table& table, const Gid& group) {
  return std::ranges::lower_bound(table, group, {}, &MulticastGroup::address);
}

bool is_at(const std::vector<MulticastGroup>& table, std::vector<MulticastGroup>::const_iterator place,
           const Gid& group) {
  return place != table.end() && place->address == group;
}

uint64_t pollers_of(const MulticastGroup& group) {
  uint64_t pollers = 0;
  for (const QueuePairEntry* member : group.members) pollers |= uint64_t{1} << member->poller_index;
  return pollers;
}

}  // namespace

MulticastGroups::MulticastGroups(const Limits& limits) : limits_(limits), table_(new Table) {}

// No other thread is left, here and where the control path reads: relaxed.
MulticastGroups::~MulticastGroups() { delete table_.load(std::memory_order_relaxed); }

int MulticastGroups::attach(const Gid& group, QueuePairEntry& entry, Retired& retired) {
  Table table = *table_.load(std::memory_order_relaxed);
  size_t total = 0;
  for (const MulticastGroup& each : table) total += each.members.size();
  auto place = place_of(table, group);
  if (!is_at(table, place, group)) {
    if (table.size() == limits_.groups) return ENOMEM;
    place = table.insert(place, {.address = group, .members = {}});
  }
  std::vector<QueuePairEntry*>& members = place->members;
  if (std::ranges::find(members, &entry) != members.end()) return 0;
  if (members.size() == limits_.members || total == limits_.total) return ENOMEM;
  members.push_back(&entry);
  place->pollers = pollers_of(*place);
  replace(std::move(table), retired);
  return 0;
}

int MulticastGroups::detach(const Gid& group, QueuePairEntry& entry, Retired& retired) {
  Table table = *table_.load(std::memory_order_relaxed);
  const auto place = place_of(table, group);
  if (!is_at(table, place, group) || std::erase(place->members, &entry) == 0) return EINVAL;
  place->pollers = pollers_of(*place);
  if (place->members.empty()) table.erase(place);
  replace(std::move(table), retired);
  return 0;
}

void MulticastGroups::detach_all(QueuePairEntry& entry, Retired& retired) {
  Table table = *table_.load(std::memory_order_relaxed);
  for (MulticastGroup& group : table) {
    std::erase(group.members, &entry);
    group.pollers = pollers_of(group);
  }
  std::erase_if(table, [](const MulticastGroup& group) { return group.members.empty(); });
  replace(std::move(table), retired);
}

size_t MulticastGroups::memberships(const QueuePairEntry& entry) const {
  return static_cast<size_t>(
      std::ranges::count_if(*table_.load(std::memory_order_relaxed), [&](const MulticastGroup& group) {
        return std::ranges::find(group.members, &entry) != group.members.end();
      }));
}

void MulticastGroups::replace(Table table, Retired& retired) {
  auto next = std::make_unique<const Table>(std::move(table));
  // Pairs with find() and empty(): the table is whole before it is seen.
  retired.reset(table_.exchange(next.release(), std::memory_order_acq_rel));
}

const MulticastGroup* MulticastGroups::find(const Gid& group) const {
  const Table& table = *table_.load(std::memory_order_acquire);  // pairs with replace()
  const auto place = place_of(table, group);
  return is_at(table, place, group) ? &*place : nullptr;
}

bool MulticastGroups::empty() const {
  return table_.load(std::memory_order_acquire)->empty();  // pairs with replace()
}

}  // namespace uroce::engine
