#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/values/random.h"
#include "base/values/result.h"
#include "host/free_ports.h"
#include "host/port_listeners.h"
#include "host/port_place.h"
#include "host/shared_device.h"

namespace uroce::host {

/// Which ids of rdma_cm are bound to which ports, as sockets are to theirs: a port of a port space belongs to
/// the id that has bound it, for one address or for all of a family; IPv4 and IPv6 share it only when each
/// keeps to its own. The ids may be those of several owners: programs that share one address, and that are of
/// several users. A call costs the logarithm of what is bound, however many ids share a port: what overlaps
/// is counted, not searched. Not thread-safe.
class PortNumbers {
 public:
  /// Ports given out when none is asked for. One is given out only where no id is bound to it at all.
  static constexpr uint16_t kFirst = FreePorts::kFirst;
  static constexpr uint16_t kLast = FreePorts::kLast;
  /// How many ports the ids of one owner hold.
  static constexpr size_t kOfOwnerMax = 1u << 16;

  /// An id, the program that has it, and the user of the machine that it counts for.
  struct Holder {
    uint32_t owner = 0;
    uint64_t id = 0;  // the owner's choice
    uint32_t user = 0;
  };

  /// What one user may have, so that others have some, too.
  struct Shares {
    size_t of_user_max = SIZE_MAX;  // ids that are bound
    /// The last free ports of the range are for users with fewer than so many.
    size_t reserve = 0;
    size_t few = 0;
  };

  explicit PortNumbers(uint64_t seed) : random_(seed) {}

  /// The port that the holder has from now on. EINVAL: it has one already; EADDRINUSE: the port is another's;
  /// EADDRNOTAVAIL: none is left; ENOBUFS: the owner has too many; EDQUOT: its user has.
  Result<uint16_t> bind(const PortRequest& request, Holder holder, const Shares& shares);
  Result<uint16_t> bind(const PortRequest& request, Holder holder) { return bind(request, holder, Shares{}); }
  /// The holder listens, so its port is shared no more. EADDRINUSE: others share it; EINVAL: it has none.
  Status claim(Holder holder);
  /// Where the holder listens. Null: nowhere.
  [[nodiscard]] std::optional<PortPlace> listens(Holder holder) const;
  /// Gives up what the holder has, if anything.
  void release(Holder holder);
  /// All holders of the owner, which has ended. Where they listened.
  std::vector<PortPlace> release_all(uint32_t owner);

  /// How many ids of the user are bound.
  [[nodiscard]] size_t count_of_user(uint32_t user) const;
  /// How many ports of the range are free.
  [[nodiscard]] size_t free_count(uint16_t space) const;
  /// The owner that listens (PortListeners::find()).
  [[nodiscard]] std::optional<uint32_t> listener(uint16_t space, uint16_t port,
                                                 const Gid& destination) const {
    return listeners_.find(space, port, destination);
  }

 private:
  /// How many ids are bound to something, and how many of these do not share it.
  struct Count {
    size_t all = 0;
    size_t unshared = 0;
  };
  /// A port of a port space to which ids are bound, by the kind of their addresses.
  using Kinds = std::array<Count, kAddressKinds>;
  struct PortKey {
    uint16_t space = 0;
    uint16_t port = 0;
    [[nodiscard]] auto operator<=>(const PortKey&) const = default;
  };
  struct Bound {
    PortPlace place;
    bool reuse = false;
    bool listens = false;
  };
  struct Owner {
    uint32_t user = 0;
    std::map<uint64_t, Bound> ids;
  };

  [[nodiscard]] const Bound* find(Holder holder) const;
  [[nodiscard]] Count overlapping(const PortPlace& place) const;
  [[nodiscard]] bool free(const PortPlace& place, bool reuse) const;
  [[nodiscard]] Status may_have_one_more(Holder holder, const Shares& shares) const;
  /// A port that no id has.
  [[nodiscard]] Result<uint16_t> pick(uint16_t space);
  [[nodiscard]] bool is_fresh(uint16_t space, uint16_t port) const;
  void add(const Bound& bound);
  void remove(const Bound& bound);

  std::map<PortKey, Kinds> ports_;
  std::map<PortPlace, Count> addresses_;  // those of kinds with one address
  std::map<uint16_t, FreePorts> free_;    // by port space, while one of the range is taken
  std::map<uint32_t, Owner> owners_;
  std::map<uint32_t, size_t> users_;  // their bound ids
  PortListeners listeners_;
  Random random_;
};

}  // namespace uroce::host
