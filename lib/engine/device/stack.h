#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"
#include "engine/device/device.h"

namespace uroce::engine {

/// The process's one stack: configuration, EAL (only if a DPDK port is opened), devices and their threads.
/// Reading the configuration is cheap and starts nothing; opening a device does.
class Stack {
 public:
  /// The stack of this process, configured from the environment on first use; the error stays and is returned
  /// again. A forked child has one of its own, with the configuration of its parent's.
  static Result<Stack*> instance();

  /// True on a thread that is inside EAL's start-up: the drivers that EAL loads call the verbs library back,
  /// which then must neither list our devices nor wait for the stack.
  static bool starting_on_this_thread();

  /// A stack of its own, for tests and benchmarks inside the project.
  static Result<std::unique_ptr<Stack>> create(Configuration configuration);

  virtual ~Stack() = default;

  [[nodiscard]] virtual const Configuration& configuration() const = 0;

  /// The MAC that the device at `index` has, or will have when it is opened, as far as that is known: its
  /// GUID follows.
  [[nodiscard]] virtual std::optional<MacAddress> known_mac(size_t index) const = 0;

  /// Opens (or finds open) the device at `index` of the configuration. Devices joined by a wire inside the
  /// process are opened together. Stays open until the last reference goes; then its threads have ended.
  virtual Result<std::shared_ptr<Device>> open(size_t index) = 0;
};

}  // namespace uroce::engine
