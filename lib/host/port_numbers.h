#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "base/result.h"
#include "host/shared_device.h"

namespace uroce::host {

/// Which ids of rdma_cm are bound to which ports, as sockets are to theirs: a port of a port space belongs to
/// the id that has bound it, for one address or for all of a family; IPv4 and IPv6 share it only when each
/// keeps to its own. The ids may be those of several owners: programs that share one address. Not
/// thread-safe.
class PortNumbers {
 public:
  /// Ports given out when none is asked for: those of Linux (ip_local_port_range).
  static constexpr uint16_t kFirst = 32768;
  static constexpr uint16_t kLast = 60999;
  /// How many ports the ids of one owner hold.
  static constexpr size_t kOfOwnerMax = 1u << 16;

  /// An id, and the program that has it.
  struct Holder {
    uint32_t owner = 0;
    uint64_t id = 0;  // the owner's choice

    [[nodiscard]] constexpr bool operator==(const Holder&) const = default;
  };

  explicit PortNumbers(uint64_t seed) : random_(seed) {}

  /// The port that the holder has from now on. EINVAL: it has one already; EADDRINUSE: the port is another's;
  /// EADDRNOTAVAIL: none is left; ENOBUFS: the owner has too many.
  Result<uint16_t> bind(const PortRequest& request, Holder holder);
  /// The holder listens, so its port is shared no more. EADDRINUSE: others share it; EINVAL: it has none.
  Status claim(Holder holder);
  /// Gives up what the holder has, if anything.
  void release(Holder holder);
  /// All holders of the owner, which has ended.
  void release_all(uint32_t owner);

  /// The owner that listens at the port for requests to `destination`, an address of ours or a loopback
  /// address; of several the one whose listener means it most precisely (ListenAddress). Null: there is none.
  [[nodiscard]] std::optional<uint32_t> listener(uint16_t space, uint16_t port, const Gid& destination) const;

 private:
  struct Bound {
    PortRequest request;
    Holder holder;
    bool listens = false;
  };
  /// A port of a port space.
  using Key = uint32_t;
  using PortsOfOwner = std::unordered_map<uint64_t, Key>;  // by id

  [[nodiscard]] static constexpr Key key_of(uint16_t space, uint16_t port) {
    return uint32_t{space} << 16 | port;
  }
  [[nodiscard]] static Key key_of(const PortRequest& request) { return key_of(request.space, request.port); }
  [[nodiscard]] static bool overlap(const PortRequest& one, const PortRequest& other);
  [[nodiscard]] bool free(const PortRequest& request) const;

  std::unordered_map<Key, std::vector<Bound>> bound_;
  std::unordered_map<uint32_t, PortsOfOwner> owners_;
  Random random_;
};

}  // namespace uroce::host
