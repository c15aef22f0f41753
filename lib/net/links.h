#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/identifiers.h"
#include "base/time.h"
#include "net/neighbours.h"
#include "port/tx_batch.h"

namespace uroce::net {

/// The neighbours of one port: of the untagged link, and of each VLAN that an address of ours lives in.
/// Threads and time as in Neighbours.
class Links {
 public:
  /// One of each VLAN, the untagged link (VLAN 0) among them.
  explicit Links(std::vector<NeighbourOptions> options);

  /// Adds the link of a VLAN that has none yet. Allocates.
  void add(NeighbourOptions options);

  /// `vlan` is that of a link.
  Neighbours& of(uint16_t vlan);
  /// Nullptr: no link of ours.
  Neighbours* find(uint16_t vlan);

  /// Our address from which `destination` is reached (Neighbours::source_to), on the link whose prefix says
  /// most of it.
  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const;

  /// A frame that may have a tag. False: malformed, of no link of ours, or none of our business.
  bool receive(std::span<const std::byte> frame, Instant now, port::TxBatch& batch);

  /// Neighbours::forget_hop() and forget() of every link.
  void forget_hop(const Gid& hop, std::optional<MacAddress> mac);
  void forget();

  /// Neighbours::take_conflict() of any link.
  std::optional<OwnAddresses::Conflict> take_conflict();

  void pump(Instant now, port::TxBatch& batch);
  [[nodiscard]] Instant deadline() const {
    Instant first = kNever;
    for (const Link& link : links_) first = std::min(first, link.neighbours.deadline());
    return first;
  }

 private:
  struct Link {
    uint16_t vlan;
    Neighbours neighbours;
  };

  std::vector<Link> links_;
};

}  // namespace uroce::net
