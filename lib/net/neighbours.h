#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "net/arp.h"
#include "net/neighbour_discovery.h"
#include "net/neighbour_table.h"
#include "net/own_addresses.h"
#include "net/prefix.h"
#include "net/resolution_clients.h"
#include "net/route.h"
#include "port/tx_batch.h"

namespace uroce::net {

enum class Resolution : uint8_t {
  kKnown,      // lookup() has it
  kAsking,     // ask again later; pump() and receive() go on with it
  kNoAnswer,   // asked often enough without an answer; reported once, then asking may start anew (ETIMEDOUT)
  kOffLink,    // outside every prefix of ours, and there is no route (EHOSTUNREACH)
  kTableFull,  // as many are being asked for as may be, and no client has more than this one (ENOBUFS)
};

/// Knows the ways from an interface better than we can find out: the kernel, when the interface is its.
class Resolver {
 public:
  virtual ~Resolver() = default;
  /// Neighbours::resolved() or resolution_failed() of the link in that VLAN follows some time. Called by
  /// pump().
  virtual void ask(const Gid& address, uint16_t vlan) = 0;
};

struct NeighbourOptions {
  struct Entry {
    Gid address;
    MacAddress mac;
  };

  MacAddress mac;                 // ours; outside VLANs its link-local address is ours, too
  uint16_t vlan = 0;              // the link is this VLAN: frames get its tag
  std::vector<Prefix> addresses;  // ours
  std::vector<Entry> fixed = {};
  std::vector<Route> routes = {};  // those whose router is in no prefix of ours are not taken
  size_t capacity = 1024;          // beyond the fixed ones
  Duration ask_every = milliseconds(500);
  uint8_t ask_times = 6;
  Duration known_for = seconds(300);  // since the neighbour was last heard
  bool probe = false;                 // asks whether others have our addresses, and announces them
  // Of Links: groups are reported to routers and switches, after random delays that come of the seed.
  bool report_groups = false;
  uint64_t seed = 0;
  Resolver* resolver = nullptr;  // not owned: then frames are neither sent nor understood
};

/// The MACs of the neighbours on one port's link: asks by ARP and neighbour discovery and answers for our own
/// addresses. Sans-I/O: one thread at a time, time as an argument, frames out through a batch; no allocation
/// after construction. A peer's bytes cannot make it grow, and never displace what a caller asked for. What
/// is being asked for takes half of the entries at most, so that it never displaces all that is known; among
/// what is known, neighbours that only asked for us give way before those that a caller wanted. Both halves
/// have owners, the clients: where there is no room, the oldest entry of the client with most gives way to
/// one with fewer.
class Neighbours {
 public:
  /// Questions are sent at this rate at most.
  static constexpr size_t kQuestionsMax = 32;
  static constexpr Duration kQuestionsEvery = milliseconds(1);

  explicit Neighbours(NeighbourOptions options);

  /// An address of ours more, and one less. What was learned stays.
  void add_address(const Prefix& address);
  void remove_address(const Gid& address);

  [[nodiscard]] std::span<const Prefix> addresses() const { return addresses_; }
  /// Sources of messages about the link itself: an IPv4 address of ours, or 0.0.0.0; a link-local one.
  [[nodiscard]] Gid any_ipv4() const;
  [[nodiscard]] Gid link_local() const;

  /// The MAC to send to, if it is known now: of neighbours, of the routers to what is further away, of
  /// ourselves and of multicast groups.
  [[nodiscard]] std::optional<MacAddress> lookup(const Gid& address, Instant now) const;

  /// Our address from which `destination` is reached, and the length of the prefix that says so: of that
  /// address itself, or of a route, and then the address is that on the router's link. For a group the first
  /// of its family, and 0. Nullopt: no way leads there.
  struct Source {
    Gid address;
    int bits;
  };
  [[nodiscard]] std::optional<Source> source_to(const Gid& destination) const;

  /// Starts asking where that is needed; the question leaves with the next pump().
  Resolution resolve(const Gid& destination, Instant now, ResolutionClient client = 0);
  /// lookup(), and resolve() if that does not know it: 0, EINPROGRESS (kAsking), or the errno of what
  /// resolve() says.
  int find_mac(const Gid& address, Instant now, MacAddress& mac, ResolutionClient client = 0);

  /// An ARP or neighbour discovery frame, without a tag, for our MAC or a group. Answers go into the batch;
  /// when that is full they are not sent, and the peer will ask again. False: malformed or none of our
  /// business (kDropNeighbour).
  bool receive(std::span<const std::byte> frame, Instant now, port::TxBatch& batch);

  /// Another neighbour says that one of our addresses is its own: the last one to do so, reported once. It
  /// was defended, but not more often than every ten seconds.
  std::optional<OwnAddresses::Conflict> take_conflict() { return own_.take_conflict(); }

  /// Sends the questions that are due.
  void pump(Instant now, port::TxBatch& batch);

  // With an resolver, whose answers may be of any address, however far.
  /// `hop`: the neighbour that has the MAC, the address itself or a router.
  void resolved(const Gid& address, const Gid& hop, MacAddress mac, Instant now);
  /// kNoAnswer or kOffLink: what resolve() says once.
  void resolution_failed(const Gid& address, Resolution why);
  /// What was told may be wrong by now.
  void forget();
  /// Forgets what is reached by `hop`, unless that still has the MAC.
  void forget_hop(const Gid& hop, std::optional<MacAddress> mac);

  /// When pump() has something to do, at the earliest; kNever when nothing is being asked.
  [[nodiscard]] Instant deadline() const { return deadline_; }

 private:
  bool receive_arp(const ArpMessage& message, Instant now, port::TxBatch& batch);
  bool receive_solicitation(const DiscoveryMessage& message, Instant now, port::TxBatch& batch);
  bool receive_advertisement(const DiscoveryMessage& message, Instant now, port::TxBatch& batch);
  void pump_own(Instant now, port::TxBatch& batch);
  // False: there is no room in the batch.
  bool ask(const Neighbour& neighbour, port::TxBatch& batch);
  bool probe_for(const Gid& address, port::TxBatch& batch) const;
  bool announce(const Gid& address, port::TxBatch& batch) const;
  bool send(const ArpMessage& message, MacAddress to, port::TxBatch& batch) const;
  bool send(const DiscoveryMessage& message, port::TxBatch& batch) const;
  void commit(port::TxFrame& frame, port::TxBatch& batch) const;
  /// True when the frame's sender claims an address of ours, which then is defended.
  bool contested(const Gid& address, MacAddress by, Instant now, port::TxBatch& batch);
  void learn(Neighbour& neighbour, MacAddress mac, Instant now);
  void learn_from_question(const Gid& address, MacAddress mac, Instant now);
  /// In place of one that may go, if that is needed; null: none may.
  Neighbour* make_entry(const Gid& address, bool wanted);
  void begin_question(Neighbour& neighbour, ResolutionClient client, Instant now);
  /// The question has its answer, or none came: `state` says which.
  void end_question(Neighbour& neighbour, NeighbourState state);
  void erase(const Neighbour& neighbour);
  /// False: there is no room for one question more of the client.
  [[nodiscard]] bool has_room_for(ResolutionClient client);
  template <typename Meant>
  void forget_if(Meant meant);

  [[nodiscard]] bool owns(const Gid& address) const;
  /// The next hop to the address, by the longest prefix: itself, or a router.
  struct Way {
    Gid hop;
    int bits;
  };
  [[nodiscard]] std::optional<Way> way_to(const Gid& address) const;
  /// The prefix of ours that the address lies in, or nullptr.
  [[nodiscard]] const Prefix* link_of(const Gid& address) const;

  const NeighbourOptions options_;
  std::vector<Prefix> addresses_;  // configured ones, then the link-local
  OwnAddresses own_;
  NeighbourTable table_;
  ResolutionClients asking_;  // whose unanswered questions there are
  ResolutionClients known_;   // that wanted those that are known
  Instant deadline_ = kNever;
};

}  // namespace uroce::net
