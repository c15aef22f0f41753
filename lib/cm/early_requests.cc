// Decision: a request without a listener waits before it is refused. A server may listen again a moment later
// (perftest `-R`). Cost: refusals are 50 ms late.
#include "cm/early_requests.h"

#include <algorithm>

namespace uroce::cm {

bool EarlyRequests::holds(const Gid& host, CommId theirs) const {
  return std::ranges::any_of(waiting_, [&](const Request& request) {
    return request.theirs == theirs && request.address.remote == host;
  });
}

bool EarlyRequests::hold(const Request& request) {
  const auto of_host = std::ranges::count_if(
      waiting_, [&](const Request& other) { return other.address.remote == request.address.remote; });
  if (waiting_.size() == kMax || static_cast<size_t>(of_host) >= kOfOneHostMax) return false;
  waiting_.push_back(request);
  return true;
}

void EarlyRequests::cancel(const Gid& host, CommId theirs, uint64_t transaction) {
  std::erase_if(waiting_, [&](const Request& request) {
    return request.theirs == theirs && request.transaction == transaction && request.address.remote == host;
  });
}

EarlyRequests::Request EarlyRequests::take(size_t place) {
  const Request taken = waiting_[place];
  waiting_.erase(waiting_.begin() + static_cast<ptrdiff_t>(place));
  return taken;
}

}  // namespace uroce::cm
