#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "base/process/forks.h"
#include "base/tables/index_space.h"
#include "base/tables/number_block.h"
#include "base/values/keyed_hash.h"
#include "engine/configuration/configuration.h"
#include "engine/device/address_provider.h"
#include "engine/device/captures.h"
#include "engine/device/injected_faults.h"
#include "engine/device/joined_groups.h"
#include "engine/device/options.h"
#include "engine/device/queue_pair_list.h"
#include "engine/platform/parallel_probe.h"
#include "engine/poller/address_table.h"
#include "engine/poller/device_events.h"
#include "engine/poller/limits.h"
#include "engine/poller/multicast_groups.h"
#include "engine/poller/poller.h"
#include "engine/poller/quiescence.h"
#include "host/statistics_format.h"
#include "mem/keys/protection_domains.h"

namespace uroce::engine {

/// What the links of a device have in common.
struct LinkParts {
  MacAddress mac;
  net::Resolver* resolver = nullptr;  // knows the ways instead; may be null
  bool probe = false;                 // asks whether others have our addresses, and reports groups
  uint64_t seed = 0;                  // of delays
};

/// The link that an address in `vlan` lives on, with what of the configuration is of it but for the
/// addresses.
net::NeighbourOptions link_options(const DeviceConfiguration& configuration, const LinkParts& parts,
                                   uint16_t vlan);

/// The addresses of a device without their prefixes, in order.
std::vector<Gid> gids_of(const DeviceConfiguration& configuration);

/// What a device is made of. Members stand in the order in which they need each other: pollers go first, the
/// port last.
struct DeviceState {
  /// Numbers of queue pairs, and of shared receive queues. There are more slots than objects live at once, as
  /// numbers rest after use.
  static constexpr uint32_t kNumbers = 1u << 23;
  static constexpr uint32_t kNumberGenerations = 4;
  /// Generations of a block of numbers: a small one has a queue pair for each number.
  static constexpr uint32_t generations_of(NumberBlock block) { return block.count < 1u << 16 ? 1 : 4; }
  static_assert(kNumbers / kNumberGenerations > Limits::kQueuePairs);

  struct Options {
    const DeviceConfiguration& device;
    const Configuration& configuration;
    std::unique_ptr<port::Port> port;
    std::vector<uint32_t> lcores;                                  // one per poller, or kNoLcore
    std::vector<std::unique_ptr<copy::Engine>> copy_engines = {};  // one per poller, or none at all
    std::unique_ptr<AddressProvider> address_provider = nullptr;   // null: the device finds out itself
    bool probe_addresses = false;
    uint32_t interface = 0;  // index of the kernel's that the port goes through; 0: none
    std::optional<NumberBlock> numbers = std::nullopt;  // of queue pairs, when others have the rest of them
    uint32_t first_queue_pair = QueuePairTable::kFirstMin;
    std::optional<HashKey> key = std::nullopt;  // decides about numbers and keys; without one they ascend
    bool eal = false;
    Parker* parker = nullptr;
    std::vector<Parker*> parkers = {};     // where the threads of dedicated pollers sleep; empty: they do not
    std::vector<Counters*> counters = {};  // one per poller, or none at all: of their own
    std::vector<Latencies*> latencies = {};                 // one per poller, or none at all
    std::vector<qp::NoticeListener*> notices = {};          // likewise
    std::shared_ptr<const void> counters_memory = nullptr;  // that these are in
    Instant (*clock)() = clock_now;
    void (*nap)(int64_t ns) = Parker::nap;  // of a thread that waits for a neighbour's answer
  };
  explicit DeviceState(Options options);

  /// True in a forked child, where the device is the parent's: no thread turns its pollers, and locks may
  /// stay taken for ever.
  [[nodiscard]] bool inherited() const { return forks != fork_count(); }
  [[nodiscard]] bool inline_pollers() const { return mode == PollerMode::kInline; }

  /// Gives the pollers of `which` (bit i: poller i) a turn each, then those that got work from them, then the
  /// other end of the wire.
  void turn(uint64_t which, Instant now);
  /// Turns for a poll of `queue`: of the pollers that report to it and, if it stays empty, of the other end.
  void turn_for_completions(const queue::CompletionQueue& queue, Instant now);
  /// A turn of the poller of `entry`, which was posted to.
  void turn_for_post(PollerQp& entry, Instant now);

  /// Fills in the MACs of a path and says whether it leads back here, and here only. A path that has the
  /// peer's MAC already, because a message of the peer's came from it, keeps that unless the neighbour is
  /// known, and nothing is asked. 0, EHOSTUNREACH (outside every prefix), ETIMEDOUT (no answer), or
  /// ENOBUFS (too many neighbours). Waits for the answer.
  int resolve(wire::Path& path, bool& to_self);

  /// Has frames to a multicast group come to the device: 0 or an errno. Of `joined_groups`.
  int join_network(const Gid& group);
  void leave_network(const Gid& group);

  /// Replaces the addresses; returns when every poller has the new ones. Under `address_changes`.
  void change_addresses(net::GidTable gids);

  /// The poller for a new queue pair: that of what it shares, one that serves its completion queues already,
  /// else the least loaded one. Under `mutex`.
  Poller& choose_poller(const QueuePairOptions& options);
  /// Adds a queue pair to the table, where packets find it from then on. Under `mutex`.
  PollerQp& add(const QueuePairOptions& options, std::unique_ptr<PollerQp> entry);
  /// Ends all queue pairs with flushed requests, for what was behind the port is gone: nothing else would end
  /// what a program waits for. Waits for turns of the pollers.
  void end_queue_pairs();
  /// Runs `function` with that queue pair in a turn of its poller. False: there is none, or no turn.
  bool run_with(QpNumber number, const std::function<void(PollerQp&, qp::Turn&)>& function);
  /// Gives each poller the speed of the link. Waits for turns of the pollers.
  void tell_speed(uint32_t mbps);
  /// Rows of the newest queue pairs, or of the one with that number, of which the first so many are
  /// filled in. Waits for turns of the pollers.
  size_t describe_queue_pairs(std::span<host::QueuePairRow> rows, std::optional<QpNumber> number);
  /// Tells a port that several processes share how many queue pairs there are now. Under `mutex`.
  void show_queue_pairs() const;

  const DeviceConfiguration configuration;
  const uint32_t forks = fork_count();  // when it was opened
  const PollerMode mode;
  const PollerIdle idle;
  const bool follow_packets;
  const copy::Kind copy_kind;
  const bool eal;
  Parker* const parker;
  Instant (*const clock)();
  void (*const nap)(int64_t ns);
  const std::unique_ptr<AddressProvider> address_provider;
  const uint32_t interface;
  std::atomic<uint32_t> interface_mtu{UINT32_MAX};    // as it is now, of an interface of the kernel
  const std::shared_ptr<const void> counters_memory;  // of the pollers
  std::unique_ptr<port::Port> port;
  const std::vector<std::unique_ptr<copy::Engine>> copy_engines;
  const MacAddress mac;
  const LinkParts link_parts;
  AddressTable addresses;
  std::mutex address_changes;  // held from the beginning of one to its end
  net::Links links;            // poller 0's
  Quiescence quiescence;
  ParallelProbe prober;
  const IndexSpace::Pages pages;  // of all tables below
  mem::BusSpace bus_space;
  mem::RegionTable regions;
  const MemoryKey reserved_lkey;
  mem::ProtectionDomains domains;
  const NumberBlock numbers;  // those that are this process's
  QueuePairTable queue_pairs;
  queue::SharedReceiveTable xrc_receives;
  qp::TransportOptions transport;  // not changed any more when there are queue pairs
  MulticastGroups groups;          // changed under `mutex`
  std::atomic<uint32_t> address_handles{0};
  DeviceListeners listeners;
  std::atomic<uint32_t> completion_queues{0};
  std::atomic<bool> serves_programs{false};
  const PollerContext context;
  std::vector<DeviceState*> partners;  // the other end of an in-process wire; set-up

  mutable std::mutex mutex;
  JoinedGroups joined_groups;
  QueuePairList entries;                 // under `mutex`
  uint64_t queue_pairs_ever = 0;         // likewise
  std::vector<uint32_t> load;            // queue pairs and XRC domains per poller, likewise
  std::vector<uint32_t> thread_domains;  // per poller, likewise
  uint32_t shared_receives = 0;          // how many there are, likewise
  uint32_t xrc_domains = 0;              // likewise ...
  uint64_t xrc_domains_ever = 0;

  std::unique_ptr<Gsi> services;  // made under `mutex`; then poller 0's

  InjectedFaults faults;  // refers to the port
  Captures captures;      // likewise
  std::vector<std::unique_ptr<Poller>> pollers;

 private:
  bool turn_pollers(uint64_t which, Instant now);
  void turn_siblings(uint64_t done, Instant now);
  void turn_others(uint64_t done, Instant now, bool worked);
};

}  // namespace uroce::engine
