#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "rdmacm/socket_address.h"
#include "wire/ip_cm.h"

namespace uroce::rdmacm {

/// Which ids are bound to which ports, as sockets are to theirs: a port of a port space belongs to the id
/// that has bound it, for one address or for all of a family; IPv4 and IPv6 share it only when each keeps to
/// its own. Not thread-safe.
class PortNumbers {
 public:
  /// Ports given out when none is asked for: those of Linux (ip_local_port_range).
  static constexpr uint16_t kFirst = 32768;
  static constexpr uint16_t kLast = 60999;

  struct BindRequest {
    wire::PortSpace space = wire::PortSpace::kTcp;
    SocketAddress address;    // port 0: any
    bool reuse = false;       // shared with others that say so, too
    bool family_only = true;  // IPv4's, or IPV6_V6ONLY: [::] does not mean 0.0.0.0 as well
  };

  explicit PortNumbers(uint64_t seed) : random_(seed) {}

  /// The port, for an id that has none. EADDRINUSE: it is another's; EADDRNOTAVAIL: none is left.
  Result<uint16_t> bind(const BindRequest& request, const void* who);
  /// Keeps the port of `who` from being shared, for a listener. EADDRINUSE: others share it.
  Status claim(const void* who);
  /// Gives up what `who` has, if anything.
  void release(const void* who);

 private:
  struct Bound {
    BindRequest request;
    const void* who;
  };
  /// A port of a port space.
  using Key = uint32_t;
  [[nodiscard]] static Key key_of(const BindRequest& request) {
    return static_cast<Key>(request.space) << 16 | request.address.port;
  }
  [[nodiscard]] static bool overlap(const BindRequest& one, const BindRequest& other);
  [[nodiscard]] bool free(const BindRequest& request) const;

  std::unordered_map<Key, std::vector<Bound>> bound_;
  std::unordered_map<const void*, Key> of_;
  Random random_;
};

}  // namespace uroce::rdmacm
