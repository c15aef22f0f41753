#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "connected_pair.h"
#include "engine/device/device_state.h"
#include "tests/support/late_engine.h"

namespace uroce::engine {

/// Two devices on one wire without any thread: pollers are turned by the test, in virtual time. Verbs calls
/// only leave doorbells (as with dedicated pollers); commands turn the poller they need at the time that it
/// is.
class VirtualPair {
 public:
  struct Options {
    uint16_t pollers = 1;
    std::string right_arguments = {};  // behind the port's name
    bool right_knows_left = true;      // its MAC; otherwise it has to ask
    bool late_engines = false;         // for copies, one for each device of one poller
    /// Of the left and the right device, on a link that is there; none: ends of a wire inside the process.
    std::vector<port::Specification> ports = {};
  };
  explicit VirtualPair(const Options& options);
  VirtualPair() : VirtualPair(Options{}) {}
  ~VirtualPair();

  /// Of the left and the right device.
  static MacAddress mac(size_t device) { return {{2, 0, 0, 0, 1, static_cast<uint8_t>(device)}}; }

  static void advance(Duration by);
  static Instant now();

  /// Every poller of both devices, once; false when none found anything to do.
  bool turn_all();
  bool turn(DeviceState& device) const;
  /// Until none finds anything to do, with `step` between the rounds.
  void settle(Duration step = microseconds(1));

  [[nodiscard]] uint64_t counter(DeviceState& device, Counter counter) const;

  std::shared_ptr<Device> left;
  std::shared_ptr<Device> right;
  DeviceState* left_state = nullptr;
  DeviceState* right_state = nullptr;
  copy::LateEngine* left_engine = nullptr;
  copy::LateEngine* right_engine = nullptr;
};

}  // namespace uroce::engine
