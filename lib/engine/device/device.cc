#include "engine/device/device.h"

#include <algorithm>
#include <cerrno>
#include <new>

#include "engine/device/device_state.h"
#include "engine/device/gid_interface.h"
#include "engine/platform/fault_handler.h"
#include "host/shared_device.h"
#include "mem/regions/dma_region.h"

namespace uroce::engine {

namespace {

/// The options of the untagged link first, then of each VLAN.
std::vector<net::NeighbourOptions> links_of(const DeviceConfiguration& configuration,
                                            const LinkParts& parts) {
  std::vector<net::NeighbourOptions> links(1, link_options(configuration, parts, 0));
  for (const InterfaceAddress& ours : configuration.addresses) {
    auto link = std::ranges::find(links, ours.vlan, &net::NeighbourOptions::vlan);
    if (link == links.end()) link = links.insert(links.end(), link_options(configuration, parts, ours.vlan));
    link->addresses.push_back({ours.address, ours.prefix_bits});
  }
  return links;
}

std::vector<uint16_t> vlans_of(const DeviceConfiguration& configuration) {
  std::vector<uint16_t> vlans;
  for (const InterfaceAddress& ours : configuration.addresses) vlans.push_back(ours.vlan);
  return vlans;
}

enum class Purpose : uint64_t { kMemoryKeys = 1, kQueuePairNumbers, kSharedReceiveNumbers, kLinkDelays };

std::span<FaultCounts> fault_counts_of(port::Port& port) {
  host::SharedDevice* const shared = port.shared_device();
  return shared != nullptr ? shared->fault_counts() : std::span<FaultCounts>();
}

std::optional<HashKey> key_for(const std::optional<HashKey>& key, Purpose purpose) {
  return key ? std::optional(derive(*key, static_cast<uint64_t>(purpose))) : std::nullopt;
}

}  // namespace

net::NeighbourOptions link_options(const DeviceConfiguration& configuration, const LinkParts& parts,
                                   uint16_t vlan) {
  net::NeighbourOptions options{.mac = parts.mac,
                                .vlan = vlan,
                                .addresses = {},
                                .probe = parts.probe,
                                .report_groups = parts.probe,
                                .seed = parts.seed,
                                .resolver = parts.resolver};
  for (const auto& [address, its_mac] : configuration.neighbours) options.fixed.push_back({address, its_mac});
  for (const StaticRoute& route : configuration.routes)
    options.routes.push_back({{route.to, route.prefix_bits}, route.via});
  for (const Gid& gateway : configuration.gateways)
    options.routes.push_back({{gateway.is_ipv4() ? Gid::from_ipv4({}) : Gid{}, 0}, gateway});
  return options;
}

std::vector<Gid> gids_of(const DeviceConfiguration& configuration) {
  std::vector<Gid> gids;
  for (const InterfaceAddress& address : configuration.addresses) gids.push_back(address.address);
  return gids;
}

DeviceState::DeviceState(Options options)
    : configuration(options.device),
      mode(options.configuration.poller_mode),
      idle(options.configuration.poller_idle),
      follow_packets(options.configuration.follow_packets),
      copy_kind(options.configuration.copy_kind),
      eal(options.eal),
      parker(options.parker),
      clock(options.clock),
      nap(options.nap),
      address_provider(std::move(options.address_provider)),
      interface(options.interface),
      counters_memory(std::move(options.counters_memory)),
      port(std::move(options.port)),
      copy_engines(std::move(options.copy_engines)),
      mac(configuration.mac.value_or(port->capabilities().mac)),
      link_parts{.mac = mac,
                 .resolver = address_provider.get(),
                 .probe = options.probe_addresses,
                 .seed = key_for(options.key, Purpose::kLinkDelays).value_or(HashKey{}).low},
      addresses(mac, net::GidTable(mac, gids_of(configuration), vlans_of(configuration)),
                address_provider != nullptr),
      links(links_of(configuration, link_parts)),
      pages(options.configuration.hugepages ? IndexSpace::Pages::kHuge : IndexSpace::Pages::kOrdinary),
      bus_space({.offset = options.configuration.bus_offset, .grace_period = &quiescence, .pages = pages}),
      regions({.entries_max = Limits::kKeys,
               .key = key_for(options.key, Purpose::kMemoryKeys),
               .grace_period = &quiescence,
               .memlock = options.configuration.honour_memlock ? mem::LockedMemory::Limit::kHonoured
                                                               : mem::LockedMemory::Limit::kIgnored,
               .prober = &prober,
               .bus_space = &bus_space,
               .pages = pages}),
      reserved_lkey(*mem::make_reserved_lkey(regions)),
      domains(Limits::kDomains),
      numbers(options.numbers.value_or(NumberBlock{})),
      queue_pairs({.numbers = options.numbers ? options.numbers->count : kNumbers,
                   .first = options.first_queue_pair,
                   .generations = options.numbers ? generations_of(*options.numbers) : kNumberGenerations,
                   .key = key_for(options.key, Purpose::kQueuePairNumbers),
                   .pages = pages}),
      xrc_receives({.numbers = kNumbers,
                    .generations = kNumberGenerations,
                    .key = key_for(options.key, Purpose::kSharedReceiveNumbers),
                    .pages = pages}),
      transport{.numbers = numbers,
                .pollers = port->capabilities().queues,
                .reads = {.sent = Limits::kReadsSent, .answered = Limits::kReadsAnswered},
                .tail_probes = options.configuration.tail_probes,
                .selective_repeat = options.configuration.selective_repeat,
                .mig_req = configuration.mig_req,
                .partition_keys = configuration.partition_keys,
                .source_ports = configuration.source_ports,
                .congestion = options.configuration.congestion,
                .xrc_receives = &xrc_receives},
      groups({.groups = Limits::kGroups, .members = Limits::kGroupMembers, .total = Limits::kMemberships}),
      context{regions, queue_pairs, groups, addresses},
      joined_groups({.join = [this](const Gid& group) { return join_network(group); },
                     .leave = [this](const Gid& group) { leave_network(group); }},
                    [this](const Gid& group) {
                      const std::lock_guard guard(mutex);
                      return groups.has_members(group);
                    }),
      faults(*port, fault_counts_of(*port)),
      captures(*port, context) {
  install_fault_handler();
  std::vector<Poller*> siblings;
  for (uint16_t i = 0; i < port->capabilities().queues; ++i) {
    const Poller::Options poller{.index = i,
                                 .lcore = options.lcores.at(i),
                                 .copy_kind = copy_kind,
                                 .copy_engine = copy_engines.empty() ? nullptr : copy_engines.at(i).get(),
                                 .clock = clock,
                                 .parker = options.parkers.empty() ? parker : options.parkers.at(i),
                                 .listeners = &listeners,
                                 .links = i == 0 ? &links : nullptr,
                                 .counters = options.counters.empty() ? nullptr : options.counters.at(i),
                                 .latencies = options.latencies.empty() ? nullptr : options.latencies.at(i),
                                 .notices = options.notices.empty() ? nullptr : options.notices.at(i)};
    siblings.push_back(pollers.emplace_back(std::make_unique<Poller>(poller, port->queue(i), context)).get());
    quiescence.watch(siblings.back()->lock(),
                     [poller = siblings.back(), now = clock] { poller->turn(now()); });
  }
  for (Poller* poller : siblings) poller->join(siblings);
  load.resize(pollers.size());
  thread_domains.resize(pollers.size());
}

void DeviceState::turn(uint64_t which, Instant now) { turn_others(which, now, turn_pollers(which, now)); }

/// A caller that finds a completion has what it came for: the other end of the wire has its turn with a call
/// that finds none.
void DeviceState::turn_for_completions(const queue::CompletionQueue& queue, Instant now) {
  const uint64_t which = queue.lanes_used();
  const bool worked = turn_pollers(which, now);
  if (queue.empty()) return turn_others(which, now, worked);
  turn_siblings(which, now);
  if (worked && parker != nullptr) parker->nudge();
}

void DeviceState::turn_for_post(PollerQp& entry, Instant now) {
  Poller& poller = entry.poller();
  TurnOutcome outcome = poller.application_turn(now, &entry);
  if (outcome == TurnOutcome::kBusy) {
    poller.ring(entry);
    // The thread that was in a turn may have ended it before the doorbell rang.
    outcome = poller.application_turn(now);
  }
  turn_others(uint64_t{1} << poller.index(), now, outcome == TurnOutcome::kWorked);
}

/// Whether there was anything to do.
bool DeviceState::turn_pollers(uint64_t which, Instant now) {
  bool worked = false;
  for (uint64_t left = which; left != 0; left &= left - 1) {
    Poller& poller = *pollers[static_cast<size_t>(__builtin_ctzll(left))];
    worked |= poller.application_turn(now) == TurnOutcome::kWorked;
  }
  return worked;
}

/// Gives the pollers that got frames from those of `done` a turn each.
void DeviceState::turn_siblings(uint64_t done, Instant now) {
  if (pollers.size() == 1) return;
  uint64_t handed_to = 0;
  for (const auto& poller : pollers) handed_to |= poller->take_handed_to();
  for (uint64_t left = handed_to & ~done; left != 0; left &= left - 1)
    pollers[static_cast<size_t>(__builtin_ctzll(left))]->application_turn(now);
}

void DeviceState::turn_others(uint64_t done, Instant now, bool worked) {
  turn_siblings(done, now);
  for (DeviceState* partner : partners) {
    for (const auto& poller : partner->pollers) worked |= poller->partner_turn(now) == TurnOutcome::kWorked;
  }
  // The background thread, should it be parked, now has an application to take over from.
  if (worked && parker != nullptr) parker->nudge();
}

Device::Device(std::unique_ptr<DeviceState> state) : state_(std::move(state)) {}
Device::~Device() = default;

const std::string& Device::name() const { return state_->configuration.name; }

WindowType2 Device::window_type2() const { return state_->configuration.window_type2; }
std::span<const uint16_t> Device::partition_keys() const { return state_->configuration.partition_keys; }
wire::SourcePorts Device::source_ports() const { return state_->configuration.source_ports; }
uint32_t Device::vendor_part() const { return state_->configuration.vendor_part; }

uint64_t Device::guid() const {
  uint64_t guid = 0;
  for (const uint8_t byte : net::eui64(state_->mac)) guid = guid << 8 | byte;
  return guid;
}

MacAddress Device::mac() const { return state_->mac; }
const port::Capabilities& Device::port_capabilities() const { return state_->port->capabilities(); }
bool Device::lost() const {
  return std::ranges::any_of(state_->pollers, [](const auto& poller) { return poller->lost(); });
}
bool Device::gone() const { return state_->port->gone(); }
bool Device::link_up() const { return state_->port->link_up(); }
void Device::add_listener(DeviceListener& listener) { state_->listeners.add(listener); }
void Device::remove_listener(DeviceListener& listener) { state_->listeners.remove(listener); }
NumberBlock Device::numbers() const { return state_->numbers; }
uint32_t Device::queue_pairs_max() const {
  return std::min(Limits::kQueuePairs, (state_->queue_pairs.capacity() + 1) / 2);
}
bool Device::serves_programs() const {
  return state_->serves_programs.load(std::memory_order_relaxed);  // nothing but a mark
}
void Device::share(FrameSwitch* programs) {
  state_->serves_programs.store(programs != nullptr, std::memory_order_relaxed);  // as above
  state_->pollers[0]->run([&](qp::Turn&) { state_->pollers[0]->set_programs(programs); });
}
port::FarEnd Device::far_end() const { return state_->port->far_end(); }
uint32_t Device::link_mtu() const {
  return std::min(state_->port->capabilities().link_mtu,
                  state_->interface_mtu.load(std::memory_order_relaxed));  // nothing but a number
}

uint32_t Device::interface() const {
  const host::SharedDevice* const shared = state_->port->shared_device();
  return shared != nullptr ? shared->interface() : state_->interface;
}

uint32_t Device::interface_of(const Gid& gid) const {
  const uint32_t own = interface();
  return own != 0 ? own : interface_for(gid);
}

bool Device::within_host() const {
  const host::SharedDevice* const shared = state_->port->shared_device();
  return shared != nullptr ? shared->within_host() : state_->port->capabilities().in_process;
}

host::SharedDevice* Device::shared_device() const {
  return state_->inherited() ? nullptr : state_->port->shared_device();
}

PathMtu Device::path_mtu_max() const {
  // IPv6, UDP, BTH, XRCETH, RETH, immediate data and ICRC: the most that surrounds a full payload.
  constexpr uint32_t kAround = 40 + 8 + 12 + 4 + 16 + 4 + 4;
  // Not every link carries a tag on top of its MTU.
  const uint32_t overhead = kAround + (state_->addresses.gids().has_vlans() ? 4 : 0);
  for (const PathMtu mtu : {PathMtu::k4096, PathMtu::k2048, PathMtu::k1024, PathMtu::k512}) {
    if (path_mtu_bytes(mtu) + overhead <= link_mtu()) return mtu;
  }
  return PathMtu::k256;
}

net::GidTable Device::gids() const { return state_->addresses.gids(); }
mem::RegionTable& Device::regions() { return state_->regions; }
mem::BusSpace& Device::bus_space() { return state_->bus_space; }
MemoryKey Device::reserved_lkey() const { return state_->reserved_lkey; }

Result<DomainId> Device::allocate_domain() { return state_->domains.allocate(); }
void Device::free_domain(DomainId domain) { (void)state_->domains.free(domain); }

std::unique_ptr<queue::CompletionQueue> Device::create_completion_queue(
    queue::CompletionQueue::Options options) {
  options.lanes = static_cast<uint16_t>(state_->pollers.size());
  // Relaxed, here and where it goes down: it is nothing but a count.
  std::atomic<uint32_t>& count = state_->completion_queues;
  const bool room = count.fetch_add(1, std::memory_order_relaxed) < Limits::kCompletionQueues;
  try {
    if (room) return std::make_unique<queue::CompletionQueue>(options);
  } catch (const std::bad_alloc&) {
  }
  count.fetch_sub(1, std::memory_order_relaxed);
  return nullptr;
}

int Device::resize_completion_queue(queue::CompletionQueue& queue, uint32_t depth) {
  using Slots = queue::CompletionQueue::Slots;
  if (state_->inherited()) return ENODEV;
  const auto resize = [&](Poller& poller, uint32_t to, Slots& slots) {
    bool done = false;
    poller.run([&](qp::Turn&) { done = queue.resize(poller.index(), to, slots); });
    return done;
  };
  const uint32_t before = queue.depth();
  std::vector<Slots> slots;
  for (size_t i = 0; i < state_->pollers.size(); ++i) slots.push_back(queue.slots_for(depth));
  for (size_t i = 0; i < slots.size(); ++i) {
    if (resize(*state_->pollers[i], depth, slots[i])) continue;
    while (i-- > 0) resize(*state_->pollers[i], before, slots[i]);
    return EINVAL;
  }
  return 0;
}

void Device::retire_completion_queue(queue::CompletionQueue& queue) {
  state_->completion_queues.fetch_sub(1, std::memory_order_relaxed);
  if (state_->inherited()) return;
  // No queue pair names it any more; a turn that was under way may still be about to publish it.
  state_->quiescence.wait();
  if (!queue.ever_moderated()) return;
  for (const auto& poller : state_->pollers)
    poller->run([&](qp::Turn& turn) { turn.completions.forget(queue); });
}

void Device::turn_for(queue::CompletionQueue& queue) {
  DeviceState& state = *state_;
  if (!state.inline_pollers() || state.inherited()) return;
  state.turn_for_completions(queue, state.clock());
}

bool Device::turn_for_services() {
  DeviceState& state = *state_;
  if (!state.inline_pollers() || state.inherited()) return false;
  state.turn(1, state.clock());  // poller 0
  return true;
}

uint64_t Device::counter(Counter counter) const {
  uint64_t sum = 0;
  for (const auto& poller : state_->pollers) sum += poller->counters().read(counter);
  return sum;
}

Device::PortCounts Device::port_counts() const {
  PortCounts counts;
  for (uint16_t i = 0; i < state_->pollers.size(); ++i) {
    const port::PortQueue& queue = state_->port->queue(i);
    counts.dropped += queue.dropped();
    counts.transmit_calls += queue.transmit_calls();
  }
  return counts;
}

Device::Information Device::information() const {
  Information information{.poller_mode = state_->mode,
                          .poller_idle = state_->idle,
                          .frame_events = state_->port->receive_events().size(),
                          .pollers = static_cast<uint16_t>(state_->pollers.size()),
                          .copy_kind = state_->copy_kind,
                          .eal = state_->eal,
                          .key_table_hugepages = state_->regions.hugepages(),
                          .regions = state_->regions.regions()};
  const std::lock_guard guard(state_->mutex);
  information.queue_pairs = static_cast<uint32_t>(state_->entries.size());
  return information;
}

}  // namespace uroce::engine
