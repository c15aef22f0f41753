#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/values/identifiers.h"
#include "base/values/result.h"

namespace uroce::drivers {

/// MTU of a network interface of the kernel; ENODEV when there is none of that name. `port` begins the
/// error's message.
Result<uint32_t> interface_mtu_of(const std::string& port, const std::string& interface);

/// The MAC of a network interface of the kernel; none when there is none of that name.
std::optional<MacAddress> interface_mac_of(const std::string& interface);

/// How many queues the interface receives by; 1 if its driver does not say.
uint16_t receive_queues_of(const std::string& interface);

/// The name of its driver ("veth"); empty if the kernel does not say.
std::string interface_driver_of(const std::string& interface);

/// Whether this is Linux of that version or later.
bool kernel_is_at_least(unsigned major, unsigned minor);

/// What the kernel must grant before a driver can open its device.
enum class Grant : uint8_t { kNone, kPacketSocket, kXdpSocket, kTunnel };

/// An error that says what is missing (EPERM: a capability) when this process would not get it.
Status may_use(Grant grant, const std::string& port);

/// An interface of the kernel, by its index: whatever its name becomes, and gone once it is deleted.
class KernelInterface {
 public:
  /// In the network namespace of the calling thread. Null when the process has no file descriptor left.
  static std::unique_ptr<KernelInterface> watch(unsigned index);
  KernelInterface(const KernelInterface&) = delete;
  KernelInterface& operator=(const KernelInterface&) = delete;
  ~KernelInterface();

  /// Any thread.
  [[nodiscard]] bool exists() const;
  /// True while it exists, is up and has a carrier. Any thread; some system calls.
  [[nodiscard]] bool running() const;
  /// Speed in Mbit/s; 0: its driver does not say. Any thread; some system calls.
  [[nodiscard]] uint32_t mbps() const;
  /// Has the interface receive all multicast groups as long as this object lives, for drivers that cannot say
  /// so. Needs CAP_NET_RAW; false: refused.
  bool receive_all_groups();

 private:
  KernelInterface(unsigned index, int socket) : index_(index), socket_(socket) {}

  const unsigned index_;
  const int socket_;        // what questions are asked through; keeps to its namespace
  int groups_socket_ = -1;  // of receive_all_groups()
};

}  // namespace uroce::drivers
