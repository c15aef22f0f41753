// Each change makes the table anew, so that pollers find members without a lock. A message to a group goes
// out once, and is looped as a copy; its sender gets it only as a member.
#include "engine/poller/multicast_groups.h"

#include <algorithm>
#include <cerrno>
#include <memory>
#include <utility>

#include "engine/poller/poller_qp.h"

namespace uroce::engine {

namespace {

/// The place where the group is in the table, or would be.
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
  // UD queue pairs never move.
  for (const PollerQp* member : group.members) pollers |= uint64_t{1} << member->poller_index();
  return pollers;
}

}  // namespace

MulticastGroups::MulticastGroups(const Limits& limits)
    : limits_(limits), table_(std::make_unique<const Table>()) {}

int MulticastGroups::attach(const Gid& group, PollerQp& entry, Retired& retired) {
  Table table = table_.current();
  size_t total = 0;
  for (const MulticastGroup& each : table) total += each.members.size();
  auto place = place_of(table, group);
  if (!is_at(table, place, group)) {
    if (table.size() == limits_.groups) return ENOMEM;
    place = table.insert(place, {.address = group, .members = {}});
  }
  std::vector<PollerQp*>& members = place->members;
  if (std::ranges::find(members, &entry) != members.end()) return 0;
  if (members.size() == limits_.members || total == limits_.total) return ENOMEM;
  members.push_back(&entry);
  place->pollers = pollers_of(*place);
  replace(std::move(table), retired);
  return 0;
}

int MulticastGroups::detach(const Gid& group, PollerQp& entry, Retired& retired) {
  Table table = table_.current();
  const auto place = place_of(table, group);
  if (!is_at(table, place, group) || std::erase(place->members, &entry) == 0) return EINVAL;
  place->pollers = pollers_of(*place);
  if (place->members.empty()) table.erase(place);
  replace(std::move(table), retired);
  return 0;
}

void MulticastGroups::detach_all(PollerQp& entry, Retired& retired) {
  Table table = table_.current();
  for (MulticastGroup& group : table) {
    std::erase(group.members, &entry);
    group.pollers = pollers_of(group);
  }
  std::erase_if(table, [](const MulticastGroup& group) { return group.members.empty(); });
  replace(std::move(table), retired);
}

bool MulticastGroups::has_members(const Gid& group) const {
  const Table& table = table_.current();
  return is_at(table, place_of(table, group), group);
}

size_t MulticastGroups::memberships(const PollerQp& entry) const {
  return static_cast<size_t>(std::ranges::count_if(table_.current(), [&](const MulticastGroup& group) {
    return std::ranges::find(group.members, &entry) != group.members.end();
  }));
}

void MulticastGroups::replace(Table table, Retired& retired) {
  retired = table_.replace(std::make_unique<const Table>(std::move(table)));
}

const MulticastGroup* MulticastGroups::find(const Gid& group) const {
  const Table& table = table_.read();
  const auto place = place_of(table, group);
  return is_at(table, place, group) ? &*place : nullptr;
}

bool MulticastGroups::empty() const { return table_.read().empty(); }

}  // namespace uroce::engine
