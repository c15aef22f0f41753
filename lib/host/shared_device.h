#pragma once

#include <bit>
#include <cerrno>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/counters/fault_counts.h"
#include "base/tables/block_code.h"
#include "base/tables/number_block.h"
#include "base/values/identifiers.h"
#include "base/values/result.h"

namespace uroce::host {

/// The least block of queue pair numbers that a program gets, as a power of two.
inline constexpr uint32_t kBlockBits = BlockCode::kUnitBits;

/// Whether a program may have the block. Of the blocks of the least size the first and the last are no
/// program's: they hold the service's own numbers, and the one that stands for the members of a group.
constexpr bool is_block_of_program(NumberBlock block) {
  constexpr uint32_t kUnit = 1u << kBlockBits;
  constexpr uint32_t kNumbers = QpNumber::kMask + 1;
  return std::has_single_bit(block.count) && block.count >= kUnit && block.first % block.count == 0 &&
         block.first >= kUnit && block.first < kNumbers && block.count < kNumbers - block.first;
}

/// The upper bits of each communication id of the program that has `block`: those of its first queue pair
/// number. So a message of the communication manager says whose it is.
inline constexpr uint32_t kCommPrefixBits = 24 - kBlockBits;
constexpr uint32_t comm_prefix(NumberBlock block) { return block.first >> kBlockBits; }
/// A queue pair number of the program whose communication id it is.
constexpr QpNumber owner_of_comm_id(uint32_t comm_id) {
  return {comm_id >> (32 - kCommPrefixBits) << kBlockBits};
}

/// What an id of rdma_cm wants to be bound to.
struct PortRequest {
  uint16_t space = 0;       // wire::PortSpace
  Gid address;              // IPv4 as ::ffff:a.b.c.d
  bool ipv6 = false;        // the family
  uint16_t port = 0;        // 0: any
  bool reuse = false;       // shared with others that say so, too
  bool family_only = true;  // IPv4's, or IPV6_V6ONLY: [::] does not mean 0.0.0.0 as well
};

/// Addresses of a device, at most: a table of GIDs has room for as many.
inline constexpr size_t kAddressesMax = 256;

/// An address of a shared device, as the service has it.
struct SharedAddress {
  Gid address;
  uint8_t prefix_bits = 0;
  uint16_t vlan = 0;
};

/// A neighbour that is asked for, and on which link: an address may stand for another neighbour in each VLAN.
struct Neighbour {
  Gid address;
  uint16_t vlan = 0;
  auto operator<=>(const Neighbour&) const = default;
};

/// A fault that packets of a shared device are to meet, under the service's number of it.
struct SharedFault {
  uint32_t id = 0;
  std::string rule;  // as `uroce fault` has it
};

/// Hears what the service tells, on the thread that reads from it.
class SharedDeviceListener {
 public:
  /// The answer to resolve(): `hop` is what has the MAC, the neighbour itself or a router.
  virtual void resolved(const Neighbour& neighbour, const Gid& hop, MacAddress mac) = 0;
  /// EHOSTUNREACH or ETIMEDOUT.
  virtual void resolution_failed(const Neighbour& neighbour, int error) = 0;
  /// What was told of a hop may be wrong by now, unless it still has the MAC; of all when `hop` is null.
  virtual void forget_neighbours(std::optional<Gid> hop, std::optional<MacAddress> mac) = 0;
  virtual void address_added(const SharedAddress& address) = 0;
  virtual void address_removed(const Gid& address) = 0;
  /// SharedDevice::programs() has changed.
  virtual void programs_changed() = 0;
  /// A fault was ordered: 0, or why it cannot apply. One that has been told of is not told of again.
  virtual int fault_added(const SharedFault& fault) = 0;
  virtual void fault_removed(uint32_t id) = 0;
  /// An order to capture, likewise ended by fault_removed(): the descriptor of the memory with what is
  /// captured, which stays open until then.
  virtual Result<int> capture_added(const SharedFault& /*order*/) {
    return Error{EOPNOTSUPP, "nothing is captured here"};
  }
  /// The link's state, or its MTU, has changed. Without a service the link is down.
  virtual void link_changed() = 0;

 protected:
  ~SharedDeviceListener() = default;
};

class ConnectionRows;

/// A device of the host's service, as one of the programs that share it sees it. Control path, any thread;
/// requests wait for the service's answer. Without a service they fail with ENETDOWN, or EAGAIN when it may
/// come back.
class SharedDevice {
 public:
  virtual ~SharedDevice() = default;

  /// The queue pair numbers that are this program's; the same ever after.
  [[nodiscard]] virtual NumberBlock numbers() const = 0;
  /// When it was attached; from start() on the listener hears of changes.
  [[nodiscard]] virtual std::vector<SharedAddress> addresses() const = 0;
  [[nodiscard]] virtual std::vector<uint16_t> partition_keys() const = 0;
  /// Whether another program has the queue pair number now. Without an answer of the service: not known,
  /// false.
  virtual bool is_anothers(QpNumber number) = 0;
  /// The link's MTU as it is now.
  [[nodiscard]] virtual uint32_t link_mtu() const = 0;
  /// Index of the kernel's interface that the device goes through. 0: none, or one of another network
  /// namespace.
  [[nodiscard]] virtual uint32_t interface() const { return 0; }
  /// No frame of the device leaves the host.
  [[nodiscard]] virtual bool within_host() const { return false; }
  /// How many programs are attached to the service.
  [[nodiscard]] virtual uint32_t programs() const = 0;

  /// rdma_cm's ports, which all programs of the host share. `id` is the caller's name of what it binds. The
  /// port; EADDRINUSE: it is another's; EADDRNOTAVAIL: none is left.
  virtual Result<uint16_t> bind(uint64_t id, const PortRequest& request) = 0;
  /// Requests for the port come to this program from now on. EADDRINUSE: another one shares the port.
  virtual Status listen(uint64_t id) = 0;
  /// Gives up what `id` has, if anything.
  virtual void release(uint64_t id) = 0;

  /// Frames to the group come to this program, too.
  virtual Status join(const Gid& group) = 0;
  virtual void leave(const Gid& group) = 0;

  /// Our address that `destination` is reached from. Null: no way leads there.
  virtual std::optional<Gid> source_to(const Gid& destination) = 0;
  /// The listener hears of the way to the neighbour. Never waits: may be called in a turn.
  virtual void resolve(const Neighbour& neighbour) = 0;

  /// Says how many queue pairs this program has, for `uroce status`. Never waits.
  virtual void show_queue_pairs(uint32_t count) = 0;

  /// Where the service finds what to disconnect when this program has ended; for one thread to write.
  virtual ConnectionRows connection_rows() = 0;

  /// Where counts of faults are kept so that the service sees them; for one thread to write.
  virtual std::span<FaultCounts> fault_counts() = 0;

  /// From now until stop() the listener hears what the service tells.
  virtual void start(SharedDeviceListener& listener) = 0;
  /// The listener hears nothing after the return, unless it is called by the listener itself.
  virtual void stop() = 0;
};

}  // namespace uroce::host
