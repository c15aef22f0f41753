#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>

#include "base/values/identifiers.h"

namespace uroce::memory_export {

/// Whose a connection is: another host's, or a user's of this host.
struct Client {
  Gid host;                      // zero: this one
  std::optional<uint64_t> user;  // of this host; none: the host's service does not know it
  bool operator==(const Client&) const = default;
};

/// The address that a request for a connection comes from.
Gid peer_of(const rdma_cm_id& request);
/// Whether that is one of this host's. Its programs differ by their queue pair numbers alone, and the host's
/// service knows whose they are (UserLookup).
bool is_of_this_host(const rdma_cm_id& request);

}  // namespace uroce::memory_export
