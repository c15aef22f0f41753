#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

#include "base/values/identifiers.h"
#include "base/values/result.h"

namespace uroce::mem {

/// The protection domains of one device and how many objects (regions, queue pairs, ...) live in each.
/// Thread-safe; control path. Numbers are not used again, so what outlives its domain by mistake matches no
/// other.
class ProtectionDomains {
 public:
  explicit ProtectionDomains(uint32_t domains_max) : domains_max_(domains_max) {}

  /// ENOMEM: domains_max are allocated.
  Result<DomainId> allocate();
  /// EBUSY: something still lives in it. EINVAL: no such domain.
  Status free(DomainId domain);

  /// An object moves in. EINVAL: no such domain.
  Status enter(DomainId domain);
  /// An object leaves the domain.
  void leave(DomainId domain);

  [[nodiscard]] uint32_t count() const;

 private:
  const uint32_t domains_max_;
  mutable std::mutex mutex_;
  std::unordered_map<uint32_t, uint64_t> uses_;
  uint32_t last_ = 0;
};

}  // namespace uroce::mem
