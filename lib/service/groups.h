#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <vector>

#include "base/values/identifiers.h"

namespace uroce::service {

class ClientSession;

/// Which programs are members of which multicast groups of a device. In turns of its poller: joining and
/// leaving cost the logarithm of what there is, so that no program's memberships make a turn long.
class Groups {
 public:
  void join(const Gid& group, ClientSession& program) {
    Members& members = groups_[group];
    if (!members.places.emplace(&program, members.all.size()).second) return;
    members.all.push_back(&program);
    joined_[&program].insert(group);
  }
  void leave(const Gid& group, ClientSession& program) {
    const auto at = groups_.find(group);
    if (at == groups_.end()) return;
    Members& members = at->second;
    const auto place = members.places.extract(&program);
    if (place.empty()) return;
    // The last one takes its place.
    ClientSession* const last = members.all.back();
    members.all.pop_back();
    if (last != &program) {
      members.all[place.mapped()] = last;
      members.places[last] = place.mapped();
    }
    if (members.all.empty()) groups_.erase(at);
    const auto of_program = joined_.find(&program);
    of_program->second.erase(group);
    if (of_program->second.empty()) joined_.erase(of_program);
  }
  /// Leaves `count_max` groups of the program, or all that it has. True: it has none any more.
  bool leave_some(ClientSession& program, size_t count_max) {
    for (size_t i = 0; i < count_max; ++i) {
      const auto of_program = joined_.find(&program);
      if (of_program == joined_.end()) return true;
      leave(Gid(*of_program->second.begin()), program);
    }
    return !joined_.contains(&program);
  }
  [[nodiscard]] std::span<ClientSession* const> members(const Gid& group) const {
    const auto at = groups_.find(group);
    return at == groups_.end() ? std::span<ClientSession* const>() : at->second.all;
  }
  [[nodiscard]] size_t count() const { return groups_.size(); }

 private:
  struct Members {
    std::vector<ClientSession*> all;
    std::map<const ClientSession*, size_t> places;  // in `all`
  };
  std::map<Gid, Members> groups_;
  std::map<const ClientSession*, std::set<Gid>> joined_;
};

}  // namespace uroce::service
