#include "drivers/port/ethdev/ethdev_port.h"

#include <net/if.h>
#include <rte_cycles.h>
#include <rte_dev.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_lcore.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <set>

#include "drivers/pci/pci_device.h"
#include "drivers/port/ethdev/bpf_log.h"
#include "drivers/port/ethdev/device_probe.h"
#include "drivers/port/ethdev/interrupt_thread.h"
#include "drivers/port/ethdev/link_end.h"
#include "drivers/port/ethdev/link_state.h"
#include "drivers/port/ethdev/memif/end.h"
#include "drivers/port/ethdev/nic_facts.h"
#include "drivers/port/kernel/packet_filter.h"
#include "drivers/process/signals_blocked.h"

namespace uroce::drivers {
namespace {

constexpr uint16_t kDescriptors = 512;
constexpr uint32_t kBuffersPerQueue = 2047;  // of one short of a power of two a mempool wastes nothing
constexpr uint32_t kMtuMin = 576;
constexpr uint32_t kRetireMsMax = 1000;  // without descriptors the driver accepts no peer
constexpr uint32_t kLinkMsMax = 5000;    // that a NIC takes to agree with a switch on its speed

/// Devices that a port of this process has, by number.
std::set<uint16_t>& attached() {
  static auto* ports = new std::set<uint16_t>;  // never destroyed, as ports may be closed during exit
  return *ports;
}

std::string reason(int code) { return rte_strerror(code < 0 ? -code : code); }

}  // namespace

EthdevPort::EthdevPort(const port::Specification& specification)
    : specification_(specification), devargs_(specification.devargs), traits_(pmd_traits(devargs_.name())) {
  capabilities_.description = specification.devargs;
  if (!specification.remark.empty()) capabilities_.description += ": " + specification.remark;
  capabilities_.queues = specification.queues;
}

EthdevPort::~EthdevPort() {
  if (port_id_ == kNoPort) return;
  const SignalsBlocked held;
  if (ring_ != nullptr) ring_->close();
  if (memif_ != nullptr) memif_->gate().pollers_ended();
  if (started()) linger();
  rules_.reset();
  if (promiscuous_) rte_eth_promiscuous_disable(port_id_);
  rte_eth_dev_info info{};
  const bool known = rte_eth_dev_info_get(port_id_, &info) == 0;
  retire();
  control([this] { close_device(); });
  if (known && info.device != nullptr) rte_dev_remove(info.device);
  attached().erase(port_id_);
}

/// No peer of a memif connects any more, and one that has just done so is the driver's.
void EthdevPort::retire() {
  if (memif_ == nullptr) return;
  control([this] { memif_->retire(); });
  bool may_close = false;
  for (uint32_t waited_ms = 0; !may_close && waited_ms < kRetireMsMax; ++waited_ms) {
    control([&] { may_close = memif_->may_close(); });
    if (!may_close) rte_delay_us_sleep(1000);
  }
}

void EthdevPort::close_device() {
  if (memif_ != nullptr) return memif_->close(port_id_);
  if (started_) rte_eth_dev_stop(port_id_);
  rte_eth_dev_close(port_id_);
}

/// The last acknowledgement of a program that ends is under way when the port is closed. Where frames wait in
/// memory that both sides map, closing takes them back, and the peer would repeat its request in vain.
void EthdevPort::linger() const {
  for (uint32_t waited = 0; waited < traits_.linger_ms && device_link_up(port_id_); ++waited)
    rte_delay_us_sleep(1000);
}

Status EthdevPort::prepare() {
  if (rte_lcore_count() == 0) return error(ENODEV, "DPDK's EAL is not running");
  if (specification_.queues == 0) return error(ENOTSUP, "0 queues asked for");
  if (!may_be_network_controller(specification_.devargs)) return error(ENODEV, "is not a network controller");
  if (Status status = may_have_pci_device(specification_.devargs); !status) return status;
  before_ = open_descriptors();
  for (const DefaultArgument& argument : traits_.defaults) {
    if (!devargs_.value(argument.key)) devargs_.set(std::string(argument.key), std::string(argument.value));
  }
  if (!traits_.queues_argument.empty() && specification_.queues > 1) {
    devargs_.set(std::string(traits_.queues_argument), std::to_string(specification_.queues));
  }
  const Result<LinkLimits> limits = link_limits(traits_, devargs_);
  if (!limits) return limits.error();
  limits_ = limits.value();
  const Status claimed = claim_what_is_known();
  if (!claimed) return claimed.error();
  Result<ServerSocket> socket = ServerSocket::claim(devargs_);
  if (!socket) return socket.error();
  socket_ = std::move(*socket);
  if (const auto end = memif_end(devargs_)) {
    auto memif = MemifConnection::make(devargs_, *end, specification_.queues);
    if (!memif) return memif.error();
    memif_ = std::move(*memif);
  }
  return {};
}

/// Before the driver sees the device: closing it again may take from another process what is the interface's
/// (net_af_xdp its program).
Status EthdevPort::claim_what_is_known() {
  if (specification_.by_rules)
    if (Status claimed = claim_interface(if_nametoindex(specification_.kernels_interface.c_str())); !claimed)
      return claimed;
  if (traits_.limit == FrameLimit::kInterface && !specification_.by_rules) {
    return claim_interface(if_nametoindex(std::string(*devargs_.value("iface")).c_str()));
  }
  auto claims = claim_end_of_link(devargs_);
  if (!claims) return claims.error();
  end_claims_ = std::move(*claims);
  return {};
}

Status EthdevPort::claim_interface(unsigned index) {
  auto claims = claim_addresses(specification_, index);
  if (!claims) return claims.error();
  address_claims_ = std::move(*claims);
  return {};
}

Status EthdevPort::attach() {
  const auto ring = ring_number(devargs_.name());
  const Status status = ring ? attach_ring_end(*ring) : attach_device();
  if (status) attached().insert(port_id_);
  return status;
}

Status EthdevPort::attach_ring_end(uint32_t number) {
  auto end = RingEnd::open(number, specification_.queues, devargs_.name());
  if (!end) return end.error();
  ring_ = std::move(*end);
  port_id_ = ring_->port_id();
  capabilities_.in_process = true;
  return {};
}

Status EthdevPort::attach_device() {
  const std::string text = devargs_.text();
  uint16_t port = find_port(text);
  if (attached().contains(port)) return error(EBUSY, "is open already in this process");
  if (traits_.grant == Grant::kXdpSocket) silence_bpf();
  if (port == RTE_MAX_ETHPORTS) {
    auto claims = probe_device(devargs_, traits_, specification_.dpdk_complaint,
                               memif_ != nullptr ? &memif_->socket() : nullptr);
    if (!claims && pci_address(text) && claims.error().message.find("resource busy") != std::string::npos)
      return error(
          EBUSY,
          "another process has it, or a device of its IOMMU group; `uroce serve` lets programs share it");
    if (!claims)
      return error(ENODEV,
                   "no DPDK driver opens '" + specification_.devargs + "' (" + claims.error().message + ")");
    std::ranges::move(*claims, std::back_inserter(end_claims_));
    port = find_port(text);
    if (port == RTE_MAX_ETHPORTS) return error(ENODEV, "is not an Ethernet device");
  }
  port_id_ = port;
  return {};
}

Status EthdevPort::choose_mtu(const rte_eth_dev_info& info) {
  if (limits_.mtu_max == 0) {
    limits_.mtu_max = std::min<uint32_t>(info.max_mtu, info.max_rx_pktlen - kLinkHeaderBytes);
    limits_.mtu_default =
        std::min(limits_.mtu_default == 0 ? limits_.mtu_max : limits_.mtu_default, limits_.mtu_max);
  }
  if (specification_.by_rules) keep_interfaces_mtu();
  const std::string largest =
      std::to_string(limits_.mtu_max) + (limits_.mtu_reason.empty() ? "" : " (" + limits_.mtu_reason + ")");
  const uint32_t mtu = specification_.mtu.value_or(limits_.mtu_default);
  if (mtu < kMtuMin)
    return error(EINVAL, "mtu " + std::to_string(mtu) + " is below " + std::to_string(kMtuMin));
  if (mtu > limits_.mtu_max)
    return error(EMSGSIZE, "mtu " + std::to_string(mtu) + " is too large: at most " + largest);
  capabilities_.link_mtu = mtu;
  capabilities_.link_mtu_reason = mtu == limits_.mtu_max ? limits_.mtu_reason
                                  : specification_.mtu   ? "as configured; at most " + largest
                                                         : "unless configured; at most " + largest;
  capabilities_.frame_bytes_max = mtu + kLinkHeaderBytes;
  return {};
}

Status EthdevPort::look_at_nic(const rte_eth_dev_info& info) {
  if (!pci_address(devargs_.name())) return {};
  capabilities_.description += std::string(" (") + info.driver_name + ")";
  auto watch = RemovalWatch::start(rte_dev_name(info.device));
  if (!watch) return error(watch.error().code, watch.error().message);
  removal_ = std::move(*watch);
  return {};
}

Status EthdevPort::configure() {
  rte_eth_dev_info info{};
  if (const int failed = rte_eth_dev_info_get(port_id_, &info); failed != 0)
    return error(-failed, reason(failed));
  if (Status status = look_at_nic(info); !status) return status;
  const uint16_t queues_max = std::min(info.max_rx_queues, info.max_tx_queues);
  capabilities_.queues_max = std::max(queues_max, specification_.queues);
  if (specification_.by_rules) {
    if (Status status = stand_beside_kernel(info); !status) return status;
  } else if (info.if_index != 0) {
    interface_ = KernelInterface::watch(info.if_index);
    const Status claimed = address_claims_.empty() ? claim_interface(info.if_index) : Status{};
    if (!claimed) return claimed;
  }
  if (traits_.has_packet_sockets) packet_sockets_ = packet_sockets(before_, info.if_index);
  if (specification_.beside_kernel() && !specification_.by_rules) {
    const Status filtered = only_roce(packet_sockets_, devargs_.name());
    if (!filtered) return filtered;
  }
  if (specification_.queues > queues_max) {
    return error(ENOTSUP, std::to_string(specification_.queues) + " queues asked for, 1 to " +
                              std::to_string(queues_max) + " are possible");
  }
  const Status mtu = choose_mtu(info);
  if (!mtu) return mtu;

  rte_eth_conf configuration{};
  if (traits_.sets_mtu) configuration.rxmode.mtu = capabilities_.link_mtu;
  const NicServices services = chosen_services(info, specification_.queues);
  configuration.txmode.offloads = services.sending;
  if (services.hashes != 0) {
    configuration.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
    configuration.rx_adv_conf.rss_conf.rss_hf = services.hashes;
  }
  capabilities_.offloads = tell_services(info, services, specification_.queues);
  if (const int failed = configure_device(info, configuration); failed != 0)
    return error(-failed, "DPDK cannot configure it: " + reason(failed));
  return set_up_queues(info);
}

/// With receive interrupts, if they are wanted and it has them.
int EthdevPort::configure_device(const rte_eth_dev_info& info, rte_eth_conf& configuration) {
  const uint16_t queues = specification_.queues;
  if (specification_.wants_events && removal_ != nullptr && receive_interrupts_come(info.driver_name)) {
    configuration.intr_conf.rxq = 1;
    interrupts_configured_ = rte_eth_dev_configure(port_id_, queues, queues, &configuration) == 0;
    if (interrupts_configured_) return 0;
    configuration.intr_conf.rxq = 0;
  }
  return rte_eth_dev_configure(port_id_, queues, queues, &configuration);
}

/// Null when there is no memory (rte_errno).
rte_mempool* EthdevPort::make_pool(uint16_t queue, const rte_eth_dev_info& info) {
  if (ring_ != nullptr) return ring_->make_pool(queue, kBuffersPerQueue, limits_.mtu_max + kLinkHeaderBytes);
  uint32_t bytes = std::max(limits_.buffer_bytes, capabilities_.frame_bytes_max);
  if (removal_ != nullptr) bytes = nic_buffer_bytes(info.driver_name, bytes, info.min_rx_bufsize);
  pools_.push_back(make_mbuf_pool(kBuffersPerQueue + traits_.buffers_kept, bytes));
  return pools_.back().get();
}

Status EthdevPort::set_up_queues(const rte_eth_dev_info& info) {
  uint16_t receive_descriptors = kDescriptors;
  uint16_t transmit_descriptors = kDescriptors;
  rte_eth_dev_adjust_nb_rx_tx_desc(port_id_, &receive_descriptors, &transmit_descriptors);
  const auto socket = static_cast<unsigned>(rte_eth_dev_socket_id(port_id_));
  for (uint16_t i = 0; i < specification_.queues; ++i) {
    rte_mempool* pool = make_pool(i, info);
    if (pool == nullptr) return error(ENOMEM, "no memory for packet buffers: " + reason(rte_errno));
    rte_eth_rxconf receive = info.default_rxconf;
    rte_eth_txconf transmit = info.default_txconf;
    int failed = rte_eth_rx_queue_setup(port_id_, i, receive_descriptors, socket, &receive, pool);
    if (failed == 0) failed = rte_eth_tx_queue_setup(port_id_, i, transmit_descriptors, socket, &transmit);
    if (failed != 0)
      return error(-failed, "DPDK cannot set up queue " + std::to_string(i) + ": " + reason(failed));
    queues_.emplace_back(EthdevQueue::Place{.port_id = port_id_,
                                            .index = i,
                                            .gate = memif_ == nullptr ? nullptr : &memif_->gate(),
                                            .interface = interface_.get(),
                                            .far_open = ring_ == nullptr ? nullptr : &ring_->far_end_open(),
                                            .removed = removal_ == nullptr ? nullptr : &removal_->removed(),
                                            .receives_by_system_calls = traits_.receives_by_system_calls,
                                            .sends_by_system_calls = traits_.sends_by_system_calls},
                         pool, ring_ == nullptr ? MbufExchange::WireRings{} : ring_->returns(i));
  }
  return {};
}

Status EthdevPort::start() {
  int failed = 0;
  control([&] { failed = start_device(); });
  if (failed != 0) return error(-failed, "DPDK cannot start it: " + reason(failed));
  if (specification_.by_rules) {
    if (Status made = make_rules(); !made) return made;
  } else if (specification_.beside_kernel()) {
    discard_unfiltered(port_id_, specification_.queues);
  }
  choose_mac();
  if (traits_.is_bond) {
    bond_ = Bond::of(port_id_);
    if (bond_ != nullptr) bond_->listen_to_all();
  }
  if (interrupts_configured_) interrupts_ = ReceiveInterrupts::of(port_id_, specification_.queues);
  if (removal_ != nullptr || traits_.is_bond) wait_for_link();
  close_new_on_exec(before_, program_has_threads());
  return {};
}

void EthdevPort::choose_mac() {
  rte_ether_addr own{};
  rte_eth_macaddr_get(port_id_, &own);
  MacAddress& mac = capabilities_.mac;
  std::copy_n(own.addr_bytes, mac.bytes.size(), mac.bytes.begin());
  if (ring_ != nullptr) mac = ring_->mac();
  if (traits_.mac_is_far_ends) mac.bytes.back() ^= 1;
  if (specification_.by_rules) mac = interface_mac_of(specification_.kernels_interface).value_or(mac);
  if (traits_.mac != MacFilter::kNone && !specification_.beside_kernel()) listen_to_our_addresses();
  mac = specification_.mac.value_or(mac);
}

void EthdevPort::control(const std::function<void()>& work) const {
  if (traits_.control_on_interrupt_thread) {
    on_interrupt_thread(work);
  } else {
    work();
  }
}

int EthdevPort::start_device() {
  // A connection, whenever it is made, comes with descriptors of its own.
  if (memif_ != nullptr) return memif_->start(port_id_, [this] { close_new_on_exec(before_, true); });
  const int failed = rte_eth_dev_start(port_id_);
  started_ = failed == 0;
  return failed;
}

/// Programs refuse a port that is down, and a NIC's link is up some time after its start. Where no cable is
/// plugged in the port is opened nevertheless.
void EthdevPort::wait_for_link() const {
  constexpr uint32_t kStepMs = 10;
  for (uint32_t waited = 0; waited < kLinkMsMax && !device_link_up(port_id_); waited += kStepMs)
    rte_delay_us_sleep(kStepMs * 1000);
}

void EthdevPort::listen_to_our_addresses() {
  // Neighbour discovery is multicast, and so are groups of datagrams. A driver that cannot let all of it in
  // stands on an interface of the kernel, which can, or lets everything in.
  const bool all_groups = rte_eth_allmulticast_enable(port_id_) == 0 ||
                          (interface_ != nullptr && interface_->receive_all_groups());
  if (!all_groups) promiscuous_ = rte_eth_promiscuous_enable(port_id_) == 0;
  if (promiscuous_ || !specification_.mac || *specification_.mac == capabilities_.mac) return;
  if (traits_.mac == MacFilter::kDevice) {
    rte_ether_addr wanted{};
    std::ranges::copy(specification_.mac->bytes, wanted.addr_bytes);
    if (rte_eth_dev_default_mac_addr_set(port_id_, &wanted) == 0) return;
  }
  promiscuous_ = rte_eth_promiscuous_enable(port_id_) == 0;
}

bool EthdevPort::link_up() const {
  if (traits_.far_end_comes_and_goes) return true;
  if (bond_ != nullptr) return bond_->choose_member();
  return !removed() && device_link_up(port_id_) && (!interface_ || interface_->running());
}

/// Drivers on an interface of the kernel make a speed up.
uint32_t EthdevPort::link_mbps() const {
  if (traits_.far_end_comes_and_goes || removed()) return 0;
  return interface_ != nullptr ? interface_->mbps() : device_link_mbps(port_id_);
}

port::FarEnd EthdevPort::far_end() const {
  if (!traits_.far_end_comes_and_goes) return port::FarEnd::kUnknown;
  const bool let_in = memif_ == nullptr || memif_->connected();
  return device_link_up(port_id_) && let_in ? port::FarEnd::kConnected : port::FarEnd::kAway;
}

}  // namespace uroce::drivers
