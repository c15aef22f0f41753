#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "engine/configuration/configuration.h"
#include "engine/device/address_provider.h"
#include "engine/platform/discard_socket.h"
#include "engine/platform/group_sockets.h"
#include "engine/platform/rtnetlink.h"
#include "engine/platform/thread.h"
#include "net/neighbours.h"

namespace uroce::engine {

/// An interface that is the kernel's, beside which a device stands: MAC, addresses, routes and neighbours are
/// the kernel's and followed by a thread, the kernel is a member of the device's multicast groups, and it is
/// kept from answering for RoCE's UDP port.
class HostInterface final : public AddressProvider {
 public:
  /// The port is taken from now on. Errors are one line that names the interface: ENODEV, EBUSY (another
  /// socket is RoCE there already), ENOTSUP (not Ethernet), EPERM.
  static Result<std::unique_ptr<HostInterface>> open(const std::string& name);
  ~HostInterface() override;
  HostInterface(const HostInterface&) = delete;
  HostInterface& operator=(const HostInterface&) = delete;

  /// The addresses when the interface was opened.
  [[nodiscard]] const std::vector<InterfaceAddress>& addresses() const { return addresses_; }

  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const override;
  int join(const Gid& group) override { return groups_.join(group); }
  void leave(const Gid& group) override { groups_.leave(group); }
  Status start(Device& device, DeviceState& state) override;
  void stop() override;
  void ask_to_stop() override;
  void abandon() override;

  /// Called by the device's neighbours, in a turn.
  void ask(const Gid& address, uint16_t vlan) override;

 private:
  /// An address that the neighbours want to be resolved.
  struct Question {
    Gid address;
    bool solicited = false;
  };

  HostInterface(unsigned index, RtNetlink events, RtNetlink questions, DiscardSocket discards);
  void follow();
  void wait();
  void take_events();
  void take_questions();
  void answer_questions();
  /// Reports what the kernel knows of the address. True when it need not be looked at again.
  bool answer(Question& question);
  void tell(const Gid& address, const Gid& hop, std::optional<MacAddress> mac, net::Resolution otherwise);
  void forget(bool all, std::span<const RtNetlink::Notice> hops);
  void compare_addresses();
  /// Passes our addresses to the port, which may have to know which frames are ours.
  void show_addresses();
  void compare_link();
  void wake() const;

  const unsigned index_;
  RtNetlink events_;
  RtNetlink questions_socket_;
  DiscardSocket discards_;
  GroupSockets groups_;  // of JoinedGroups
  const int wake_;       // eventfd
  std::vector<InterfaceAddress> addresses_;
  MacAddress mac_;

  Device* device_ = nullptr;
  DeviceState* state_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::optional<Thread> thread_;
  std::mutex mutex_;
  std::vector<Gid> asked_;      // under the mutex, until the thread takes them
  std::vector<Question> open_;  // the thread's
  bool has_another_mac_ = false;
};

}  // namespace uroce::engine
