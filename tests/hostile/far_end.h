#pragma once

#include <cstddef>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/values/result.h"
#include "engine/configuration/configuration.h"
#include "engine/device/device.h"
#include "port/port.h"

// What the victims inside a process have in common: a device at one end of a wire, and at the other end a
// program with nothing but raw frames. Errors are exceptions: what a test says then.
namespace uroce::engine {

inline constexpr Psn kFirstPsn{1000};  // of the connections to the far end
inline const Gid kStranger = Gid::from_ipv4({192, 0, 2, 66});

void require(bool holds, const std::string& what);

template <typename Value>
Value value_of(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

/// Of a device at `port` that knows kStranger.
Configuration victim_at(const std::string& port);

/// The far end of the wire. One thread.
class FarEnd {
 public:
  explicit FarEnd(const std::string& port);

  [[nodiscard]] bool is_up() const { return port_->link_up(); }
  /// Until both ends are connected, and this one takes what comes. A memif is up before that.
  void come_up(const Device& device);
  /// False: there is no room, or there never will be.
  bool send(const std::vector<std::byte>& bytes);
  /// Whatever the answers were: how many RoCEv2 packets have come since the last time.
  size_t drop_answers();

 private:
  std::unique_ptr<port::Port> port_;
};

/// All that the device has, behind what was said of the line so far.
void say_counters(const Device& device);

/// The next frame of the standard input. False at its end.
bool read_frame(std::vector<std::byte>& frame);

}  // namespace uroce::engine
