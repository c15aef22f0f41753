#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "net/memberships.h"
#include "net/neighbours.h"
#include "port/tx_batch.h"

namespace uroce::net {

/// The neighbours and the multicast groups of one port: of the untagged link, and of each VLAN that an
/// address of ours lives in. Threads and time as in Neighbours.
class Links {
 public:
  /// One of each VLAN, the untagged link (VLAN 0) among them.
  explicit Links(std::vector<NeighbourOptions> options);

  /// Adds the link of a VLAN that has none yet. Allocates.
  void add(NeighbourOptions options);

  /// An address of ours more in the VLAN of a link, and one less; with the solicited-node group of an IPv6
  /// address (RFC 4861 7.2.1).
  void add_address(uint16_t vlan, const Prefix& address);
  void remove_address(uint16_t vlan, const Gid& address);

  /// One user more of a multicast group, and one less, on every link. Joining allocates.
  void join(const Gid& group);
  void leave(const Gid& group);

  /// `vlan` is that of a link.
  Neighbours& of(uint16_t vlan);
  /// Nullptr: no link of ours.
  Neighbours* find(uint16_t vlan);

  /// Our address from which `destination` is reached (Neighbours::source_to), on the link whose prefix says
  /// most of it.
  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const;

  /// A frame that may have a tag. False: malformed, of no link of ours, or none of our business.
  bool receive(std::span<const std::byte> frame, Instant now, port::TxBatch& batch);
  /// A query about multicast groups, which may have a tag. False: malformed, of no link of ours, or groups
  /// are not reported here. What answers it leaves with a later pump().
  bool receive_query(std::span<const std::byte> frame, Instant now);

  /// Neighbours::forget_hop() and forget() of every link.
  void forget_hop(const Gid& hop, std::optional<MacAddress> mac);
  void forget();

  /// Neighbours::take_conflict() of any link.
  std::optional<OwnAddresses::Conflict> take_conflict();

  /// Sends what is due; returns how many reports of groups were among it.
  size_t pump(Instant now, port::TxBatch& batch);
  [[nodiscard]] Instant deadline() const {
    Instant first = kNever;
    for (const Link& link : links_) {
      first = std::min(first, link.neighbours.deadline());
      first = std::min(first, std::min(link.igmp.deadline(), link.mld.deadline()));
    }
    return first;
  }

 private:
  struct Link {
    uint16_t vlan;
    bool reports_groups;
    Neighbours neighbours;
    Memberships igmp;
    Memberships mld;

    void join(const Gid& group);
    void leave(const Gid& group);
    size_t report(Instant now, port::TxBatch& batch);
  };
  [[nodiscard]] Link* link_of(uint16_t vlan);

  std::vector<Link> links_;
  std::vector<Gid> groups_;  // joined; on links that are added later, too
};

}  // namespace uroce::net
