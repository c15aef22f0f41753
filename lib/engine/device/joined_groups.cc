#include "engine/device/joined_groups.h"

#include <algorithm>

#include "host/shared_device.h"

namespace uroce::engine {

int JoinedGroups::join(const Gid& group) {
  if (device_ == nullptr) return 0;
  const std::lock_guard guard(mutex_);
  // The member may have left again meanwhile.
  if (std::ranges::find(joined_, group) != joined_.end() || !has_members_(group)) return 0;
  if (const Status joined = device_->join(group); !joined) return joined.error().code;
  joined_.push_back(group);
  return 0;
}

void JoinedGroups::leave_unused() {
  if (device_ == nullptr) return;
  const std::lock_guard guard(mutex_);
  std::erase_if(joined_, [&](const Gid& group) {
    if (has_members_(group)) return false;
    device_->leave(group);
    return true;
  });
}

}  // namespace uroce::engine
