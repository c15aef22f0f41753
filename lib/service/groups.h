#pragma once

#include <algorithm>
#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "base/identifiers.h"

namespace uroce::service {

class Attachment;

/// Which programs are members of which multicast groups of a device. In turns of its poller.
class Groups {
 public:
  void join(const Gid& group, Attachment& program) {
    std::vector<Attachment*>& members = members_[group];
    if (std::ranges::find(members, &program) == members.end()) members.push_back(&program);
  }
  void leave(const Gid& group, Attachment& program) {
    const auto at = members_.find(group);
    if (at == members_.end()) return;
    std::erase(at->second, &program);
    if (at->second.empty()) members_.erase(at);
  }
  void leave_all(Attachment& program) {
    for (auto& [group, members] : members_) std::erase(members, &program);
    std::erase_if(members_, [](const auto& entry) { return entry.second.empty(); });
  }
  [[nodiscard]] std::span<Attachment* const> members(const Gid& group) const {
    const auto at = members_.find(group);
    return at == members_.end() ? std::span<Attachment* const>() : at->second;
  }
  [[nodiscard]] size_t count() const { return members_.size(); }

 private:
  std::map<Gid, std::vector<Attachment*>> members_;
};

}  // namespace uroce::service
