#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "engine/configuration.h"
#include "engine/device.h"
#include "engine/discard_socket.h"
#include "engine/rtnetlink.h"
#include "engine/thread.h"
#include "net/neighbours.h"

namespace uroce::engine {

/// An interface that is the kernel's, beside which a device stands: MAC, addresses, routes and neighbours are
/// the kernel's and followed by a thread, and the kernel is kept from answering for RoCE's UDP port.
class HostInterface final : public net::Resolver {
 public:
  /// The port is taken from now on. Errors are one line that names the interface: ENODEV, EBUSY (somebody is
  /// RoCE there already), ENOTSUP (not Ethernet), EPERM.
  static Result<std::unique_ptr<HostInterface>> open(const std::string& name);
  ~HostInterface();
  HostInterface(const HostInterface&) = delete;
  HostInterface& operator=(const HostInterface&) = delete;

  /// As they were when it was opened.
  [[nodiscard]] const std::vector<InterfaceAddress>& addresses() const { return addresses_; }

  /// The kernel's address that `destination` is reached from, through this interface. Any thread.
  [[nodiscard]] std::optional<Gid> source_to(const Gid& destination) const;

  /// From now until stop() the device's addresses follow the kernel's, and what its neighbours ask is
  /// answered. EAGAIN: no thread.
  Status start(Device& device, Device::State& state);
  void stop();
  /// Only begins what stop() waits for: the thread may be waiting for a turn.
  void ask_to_stop();
  /// In a forked child, where the thread does not exist.
  void abandon();

  /// Called by the device's neighbours, in a turn.
  void ask(const Gid& address) override;

 private:
  /// What the neighbours wait for.
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
  /// True when it need not be looked at again.
  bool answer(Question& question);
  void tell(const Gid& address, const Gid& hop, std::optional<MacAddress> mac, net::Resolution otherwise);
  void forget(bool all, std::span<const RtNetlink::Notice> hops);
  void compare_addresses();
  void compare_link();
  void wake() const;

  const unsigned index_;
  RtNetlink events_;
  RtNetlink questions_socket_;
  DiscardSocket discards_;
  const int wake_;  // eventfd
  std::vector<InterfaceAddress> addresses_;
  MacAddress mac_;

  Device* device_ = nullptr;
  Device::State* state_ = nullptr;
  std::atomic<bool> stopping_{false};
  std::optional<Thread> thread_;
  std::mutex mutex_;
  std::vector<Gid> asked_;      // under the mutex, until the thread takes them
  std::vector<Question> open_;  // the thread's
  bool has_another_mac_ = false;
};

}  // namespace uroce::engine
