#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <memory_resource>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counters/counters.h"
#include "base/tables/number_block.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "base/values/time.h"
#include "capture/order.h"
#include "engine/configuration/configuration.h"
#include "engine/device/injected_faults.h"
#include "engine/device/options.h"
#include "engine/poller/limits.h"
#include "engine/poller/qp_slot.h"
#include "faults/breakage.h"
#include "mem/bus/bus_space.h"
#include "mem/keys/region_table.h"
#include "net/gid_table.h"
#include "port/port.h"
#include "qp/attributes/attributes.h"
#include "qp/attributes/datagram_address.h"
#include "qp/attributes/event.h"
#include "queue/completion_queue.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_queue.h"

namespace uroce::engine {

class DeviceListener;
class FrameSwitch;
struct DeviceState;
class Gsi;
class ServicesUser;

/// One RDMA device: a port, its addresses, its memory regions, its queue pairs and the pollers that turn
/// them. All functions are thread-safe control path (they may lock, allocate and wait) unless they say
/// otherwise.
class Device {
 public:
  /// Made by Stack only.
  explicit Device(std::unique_ptr<DeviceState> state);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  [[nodiscard]] const std::string& name() const;
  [[nodiscard]] uint32_t vendor_part() const;
  [[nodiscard]] WindowType2 window_type2() const;
  [[nodiscard]] std::span<const uint16_t> partition_keys() const;  // by P_Key index; not empty
  [[nodiscard]] wire::SourcePorts source_ports() const;
  [[nodiscard]] uint64_t guid() const;  // EUI-64 of the MAC, host order
  [[nodiscard]] MacAddress mac() const;
  [[nodiscard]] const port::Capabilities& port_capabilities() const;
  [[nodiscard]] bool link_up() const;
  /// What is behind the port was taken away.
  [[nodiscard]] bool gone() const;
  /// A thread has left a turn in the middle: nothing moves any more.
  [[nodiscard]] bool lost() const;
  [[nodiscard]] port::FarEnd far_end() const;
  /// The queue pair numbers that are this process's.
  [[nodiscard]] NumberBlock numbers() const;
  /// How many queue pairs there may be at once.
  [[nodiscard]] uint32_t queue_pairs_max() const;
  [[nodiscard]] uint32_t link_mtu() const;
  /// What this process shares with the other programs of its host's service. Null: the device is this
  /// process's alone, or was opened before fork() by its parent.
  [[nodiscard]] host::SharedDevice* shared_device() const;
  /// The listener is told of the device's events until it is removed.
  void add_listener(DeviceListener& listener);
  void remove_listener(DeviceListener& listener);
  [[nodiscard]] PathMtu path_mtu_max() const;
  /// Index of the kernel's interface that the device stands beside or goes through; 0: none.
  [[nodiscard]] uint32_t interface() const;
  /// Index of the interface that programs are told for the GID, which is never 0 (gid_interface.h).
  [[nodiscard]] uint32_t interface_of(const Gid& gid) const;
  /// No frame of the device leaves the host.
  [[nodiscard]] bool within_host() const;
  /// The GIDs as they are now.
  [[nodiscard]] net::GidTable gids() const;
  /// Adds an address: 0, EEXIST, ENOSPC (no GID index is left), ENODEV. When it returns its packets
  /// are received and questions for it are answered; listeners hear of it (kGidChange).
  int add_address(const InterfaceAddress& address);
  /// Removes an address: 0, ENOENT, ENODEV. Queue pairs that send from it go on, but what comes to it is
  /// dropped.
  int remove_address(const Gid& address);
  /// Our address that `destination` is reached from: the one with the longest prefix that it lies in; for a
  /// group, the first. Null: no way leads there, or the device is closed.
  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const;
  /// The MAC to send to in the VLAN. Never waits: 0, EINPROGRESS (it is being asked for), or why there is
  /// none: EHOSTUNREACH, ETIMEDOUT, ENOBUFS, ENODEV.
  struct NeighbourQuestion {
    Gid destination;
    uint16_t vlan = 0;
    uint64_t client = 0;  // the party that asks: net::Neighbours shares its room among clients
    int error = 0;        // the answer
    MacAddress mac = {};
  };
  /// All of them in one turn, so they should be few.
  void find_neighbours(std::span<NeighbourQuestion> questions);

  /// Other programs have its queue pairs: share() has been called.
  [[nodiscard]] bool serves_programs() const;
  /// Frames for queue pairs that are not this device's are the programs' from now on, and theirs are sent.
  /// Null: they share it no more; nothing is called any more after the return.
  void share(FrameSwitch* programs);
  [[nodiscard]] mem::RegionTable& regions();
  [[nodiscard]] mem::BusSpace& bus_space();
  [[nodiscard]] MemoryKey reserved_lkey() const;

  Result<DomainId> allocate_domain();
  void free_domain(DomainId domain);

  /// Null: there is no memory for it, or none left at the limit. The queue must outlive every queue pair that
  /// names it, and is retired before it ends. `lanes` is set by the device.
  std::unique_ptr<queue::CompletionQueue> create_completion_queue(queue::CompletionQueue::Options options);
  /// ibv_resize_cq, while the caller keeps everybody from polling: 0, ENOMEM, or EINVAL when more completions
  /// than that wait; then the queue is as it was.
  int resize_completion_queue(queue::CompletionQueue& queue, uint32_t depth);
  /// No poller refers to the queue after the return.
  void retire_completion_queue(queue::CompletionQueue& queue);

  /// The queue must outlive every queue pair that names it; of XRC, where packets do, it gets a number.
  Result<std::unique_ptr<SharedReceives>> create_shared_receives(const SharedReceivesOptions& options);
  /// While the caller keeps everybody from posting: 0, ENODEV, or EINVAL when more requests than that are
  /// outstanding; then the queue is as it was. `change` is of this queue.
  int resize_shared_receives(SharedReceives& receives, queue::SharedReceiveQueue::Resizing& change);
  /// No poller touches the queue, its memory or its completion queue any more when it returns.
  void destroy_shared_receives(std::unique_ptr<SharedReceives> receives);

  /// The domain must outlive what is made in it.
  Result<std::unique_ptr<XrcDomain>> create_xrc_domain();
  void destroy_xrc_domain(std::unique_ptr<XrcDomain> domain);

  ThreadDomain take_thread_domain();
  void give_back_thread_domain(ThreadDomain domain);
  /// Queue pairs of this queue come to the domain's poller, unless they have another domain of their own.
  void bind(queue::CompletionQueue& queue, ThreadDomain domain);
  /// Queue pairs of these receives come to the domain's poller; before the first of them is made.
  void bind(SharedReceives& receives, ThreadDomain domain);

  /// Makes a queue pair. EINVAL also: its thread domain is not that of its shared receive queue.
  Result<QpSlot*> create_queue_pair(const QueuePairOptions& options);
  /// Destroys a queue pair, after what it received is acknowledged. Returns when no poller touches it, its
  /// queues or memory any more.
  void destroy_queue_pair(QpSlot& queue_pair);
  /// Destroys all queue pairs of which `is_meant` says so; they leave their groups, too.
  void destroy_queue_pairs(const std::function<bool(const QpSlot&)>& is_meant);
  /// `attributes.path` carries GIDs, traffic class, hop limit and flow label; the device resolves the MACs
  /// (ARP or neighbour discovery; ETIMEDOUT without an answer) and `to_self`.
  int modify_queue_pair(QpSlot& queue_pair, qp::Attributes attributes, qp::AttributeMask mask);
  qp::Attributes query_queue_pair(QpSlot& queue_pair);
  qp::CongestionState query_congestion(QpSlot& queue_pair);
  /// 0 or an errno, as qp::QueuePair::set_congestion_control().
  int set_congestion_control(QpSlot& queue_pair, qp::CongestionControl control);

  /// An address for datagrams, of a path as above and without queue pair numbers and Q_Key; given back when
  /// it is copied no more. ENOMEM at the limit.
  Result<qp::DatagramAddress> take_address(wire::Path path);
  void give_back_address();

  /// The queue pair, of UD, gets a copy of each message to the group: those of this device's own queue pairs,
  /// too. 0 if it does already; ENOMEM at a limit. A member is not destroyed.
  int attach_group(QpSlot& queue_pair, const Gid& group);
  /// None is under way after the return. EINVAL: it is no member.
  int detach_group(QpSlot& queue_pair, const Gid& group);
  /// Frames to the multicast group come to the device for one user more, which is none of its queue pairs: 0,
  /// or the errno of the kernel or the service; then it is not held. Ended by release_group().
  int hold_group(const Gid& group);
  void release_group(const Gid& group);
  [[nodiscard]] bool in_groups(const QpSlot& queue_pair) const;

  /// The general services, which are there from the first call on, with the user of that call: `function` is
  /// run in a turn. ENODEV: the device is closed. Neither may call the device.
  int manage(ServicesUser& user, const std::function<void(Gsi&, Instant now)>& function);

  /// Something was published on the send queue, or on the receive queue of a queue pair in the error state.
  /// Any thread, hot: at most one ring push. With inline pollers the caller's thread then turns the poller
  /// once, if it is free.
  void ring_doorbell(QpSlot& queue_pair);

  /// Inline pollers: turns, once, every free poller that serves `queue`. Dedicated: nothing. Hot.
  void turn_for(queue::CompletionQueue& queue);

  /// Inline pollers: turns, once, the poller of the general services, if it is free. False with dedicated
  /// ones.
  bool turn_for_services();

  /// What `uroce info` shows and no other function tells.
  struct Information {
    PollerMode poller_mode = PollerMode::kInline;
    PollerIdle poller_idle = PollerIdle::kAuto;
    size_t frame_events = 0;  // descriptors of the port that tell of frames
    uint16_t pollers = 0;
    copy::Kind copy_kind = copy::Kind::kAuto;
    bool eal = false;  // the port runs on DPDK
    bool key_table_hugepages = false;
    uint32_t regions = 0;
    uint32_t queue_pairs = 0;
  };
  [[nodiscard]] Information information() const;

  /// Injects the fault into packets until it is removed; one for another device is none of this one's.
  /// ENOENT: there is no such queue pair; ENOSPC; ENODEV.
  Status add_fault(const faults::NumberedRule& rule);
  /// Removes a fault. False: there is none of that number.
  bool remove_fault(uint32_t id);
  [[nodiscard]] std::vector<InjectedFaults::Report> faults() const;
  /// Breaks something of the device, or all of it, at once: 0, ENOENT (it has not got it), EBUSY (windows are
  /// bound over the region), ENODEV.
  int break_at_once(const faults::Breakage& broken);

  /// Frames are captured from now on, to memory that another process can map to read (capture/ring.h): its
  /// descriptor, which is open until remove_capture(). ENOENT: there is no such queue pair; EBUSY, ENOMEM,
  /// ENODEV.
  Result<int> add_capture(uint32_t id, const capture::Order& order);
  /// Ends a capture. False: there is none of that number.
  bool remove_capture(uint32_t id);

  /// A counter, summed up over all pollers.
  [[nodiscard]] uint64_t counter(Counter counter) const;

  /// What the port's queues count themselves (port::PortQueue), summed up.
  struct PortCounts {
    uint64_t dropped = 0;
    uint64_t transmit_calls = 0;
  };
  [[nodiscard]] PortCounts port_counts() const;

 private:
  [[nodiscard]] bool has_queue_pair(QpNumber number) const;

  std::unique_ptr<DeviceState> state_;
};

}  // namespace uroce::engine
