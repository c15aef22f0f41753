#include "mem/keys/protection_domains.h"

#include <cerrno>
#include <string>

#include "base/values/contract.h"

namespace uroce::mem {
namespace {

Error no_such_domain(DomainId domain) {
  return {EINVAL, "no protection domain " + std::to_string(domain.value)};
}

}  // namespace

Result<DomainId> ProtectionDomains::allocate() {
  const std::lock_guard lock(mutex_);
  if (uses_.size() >= domains_max_) {
    return Error{ENOMEM, "all " + std::to_string(domains_max_) + " protection domains are in use"};
  }
  // After 2^32 allocations numbers come round; 0 stays "none".
  do {
    ++last_;
  } while (last_ == 0 || uses_.contains(last_));
  uses_.emplace(last_, 0);
  return DomainId{last_};
}

Status ProtectionDomains::free(DomainId domain) {
  const std::lock_guard lock(mutex_);
  const auto found = uses_.find(domain.value);
  if (found == uses_.end()) return no_such_domain(domain);
  if (found->second > 0) {
    return Error{EBUSY, std::to_string(found->second) + " objects are still in protection domain " +
                            std::to_string(domain.value)};
  }
  uses_.erase(found);
  return {};
}

Status ProtectionDomains::enter(DomainId domain) {
  const std::lock_guard lock(mutex_);
  const auto found = uses_.find(domain.value);
  if (found == uses_.end()) return no_such_domain(domain);
  ++found->second;
  return {};
}

void ProtectionDomains::leave(DomainId domain) {
  const std::lock_guard lock(mutex_);
  const auto found = uses_.find(domain.value);
  UROCE_ASSERT(found != uses_.end() && found->second > 0);
  --found->second;
}

uint32_t ProtectionDomains::count() const {
  const std::lock_guard lock(mutex_);
  return static_cast<uint32_t>(uses_.size());
}

}  // namespace uroce::mem
