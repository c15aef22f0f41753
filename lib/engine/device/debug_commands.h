#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "engine/platform/parker.h"
#include "engine/platform/thread.h"
#include "faults/rule.h"
#include "host/own_orders.h"
#include "host/scope.h"

namespace uroce::engine {

class Device;

/// Takes orders of tools for the devices that this process shares with no other: faults, to break something,
/// and to capture frames (host/orders_format.h); for shared devices the host's service takes them.
/// A thread does it, by commands to the pollers. It sleeps otherwise, and is there as long as a device is.
class DebugCommands {
 public:
  static DebugCommands& of_process();

  // Any thread.

  /// From now on the device is meant, too, until remove(); it has the faults of the configuration already,
  /// with numbers from 1 on, and gets what was ordered meanwhile. EAGAIN (there is no thread), EMFILE,
  /// ENOMEM, ENOSYS (there is no memory): no orders are taken until a later device finds both; this one is
  /// meant then.
  Status add(Device& device, std::span<const faults::Rule> configured);
  /// Nothing touches the device after the return. Does nothing with one that was not added.
  void remove(Device& device);

 private:
  /// A capture of a device that no service tells of.
  static constexpr uint32_t kCaptureId = 1;

  struct Ordered {
    uint32_t id = 0;
    faults::Rule rule;
    Instant since{};
  };

  Status start();
  void stop();
  void serve();
  void answer();
  // Under the mutex.
  Status perform(host::OrdersMemory& memory);
  Status order(host::OrdersMemory& memory, std::string_view text);
  Result<uint32_t> add_fault(std::string_view text);
  Status break_at_once(std::string_view text);
  Status capture(host::OrdersMemory& memory, std::string_view text);
  void stop_capture();
  Status remove_faults(uint32_t id);
  void list_faults(host::OrdersMemory& memory) const;
  [[nodiscard]] Result<std::vector<Device*>> meant_by(const host::Scope& scope) const;

  std::mutex lifetime_;                    // of the thread and the memory: held by add() and remove()
  std::optional<host::OwnOrders> memory_;  // while there is a device, with the thread
  Parker sleep_;
  std::atomic<bool> stopping_{false};
  std::optional<Thread> thread_;

  std::mutex mutex_;  // of what follows
  std::vector<Device*> devices_;
  std::vector<Ordered> faults_;
  uint32_t next_ = 1;
  bool captures_ = false;
};

}  // namespace uroce::engine
