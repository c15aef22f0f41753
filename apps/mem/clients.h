#pragma once

#include <rdma/rdma_cma.h>

#include <cstdint>
#include <optional>

#include "base/identifiers.h"

namespace uroce::memory_export {

/// Whose a connection is: another host's, or a user's of this host.
struct Client {
  Gid host;                      // zero: this one
  std::optional<uint64_t> user;  // of this host; none: the host's service does not know it
  bool operator==(const Client&) const = default;
};

/// Tells whose a request for a connection is. Programs of this host differ by their queue pair numbers alone,
/// and the host's service knows whose they are: it is asked, which takes some 100 us.
Client client_of(const rdma_cm_id& request, QpNumber queue_pair);

}  // namespace uroce::memory_export
