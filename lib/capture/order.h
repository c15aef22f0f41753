#pragma once

#include <bitset>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/values/result.h"
#include "host/scope.h"

namespace uroce::capture {

/// Begins the text of an order to capture, which goes the way of faults (host/control.h).
inline constexpr std::string_view kOrderPrefix = "capture";
/// Bytes of a frame that are captured if nothing else is said: more than the headers of any RoCE packet have.
inline constexpr uint32_t kSnapDefault = 128;
inline constexpr uint32_t kSnapMin = 64;
/// The longest frame of a path MTU of 4096.
inline constexpr uint32_t kSnapMax = 4352;

enum class Direction : uint8_t { kBoth, kIn, kOut };

/// Which frames are captured, and how much of each.
struct Order {
  host::Scope scope = {};
  std::string opcode = {};  // RoCE packets with this in their opcode's name, as "READ"
  Direction direction = Direction::kBoth;
  uint32_t snap_bytes = kSnapDefault;

  [[nodiscard]] bool operator==(const Order&) const = default;
};

/// "capture,device=uroce0,qp=17,opcode=READ,direction=in,snaplen=128". The error is EINVAL, and names the
/// key.
Result<Order> parse_order(std::string_view text);
/// parse_order() of it gives the same order.
std::string to_text(const Order& order);

/// Opcodes whose name has `part` in it, in letters of either case.
std::bitset<256> opcodes_named(std::string_view part);

}  // namespace uroce::capture
