#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "base/tables/block_code.h"
#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "wire/cm_message.h"

namespace uroce::service {

/// Requests (REQ, SIDR_REQ) for ports at which no program listens yet. A server that starts, or that has just
/// taken one client, may be about to listen, so such a request waits a moment before it is refused. Bounded
/// in number, also for each source address, and for each program at ours; nothing is allocated after
/// construction.
class HeldRequests {
 public:
  static constexpr size_t kMax = 64;
  static constexpr size_t kOfOneSourceMax = 16;
  static constexpr Duration kHeldFor = milliseconds(50);
  /// Ethernet, VLAN tag, IPv6, UDP, BTH, DETH, a management datagram, ICRC.
  static constexpr size_t kFrameBytesMax = 14 + 4 + 40 + 8 + 12 + 8 + wire::kMadBytes + 4;

  struct Request {
    Gid source;
    uint32_t program = 0;  // at our own address, which of the programs has sent it
    wire::CommId sender;
    wire::ServiceId service;
    Gid meant;
    Instant until;
    bool has_icrc = true;
    BlockCode from = {};  // the same program, as the frame's receiver is told
    size_t length = 0;
    std::array<std::byte, kFrameBytesMax> bytes{};

    [[nodiscard]] std::span<const std::byte> frame() const { return std::span(bytes).first(length); }
  };

  HeldRequests() { held_.reserve(kMax); }

  [[nodiscard]] bool empty() const { return held_.empty(); }
  /// True also when the same request waits already. False: there is no room.
  bool hold(const Request& request, std::span<const std::byte> frame) {
    const auto of_source = [&](const Request& held) {
      return held.source == request.source && held.program == request.program;
    };
    if (std::ranges::any_of(held_, [&](const Request& held) {
          return of_source(held) && held.sender == request.sender && held.service == request.service;
        }))
      return true;
    const bool room = held_.size() < kMax &&
                      std::ranges::count_if(held_, of_source) < static_cast<ptrdiff_t>(kOfOneSourceMax);
    if (!room || frame.size() > kFrameBytesMax) return false;
    Request& held = held_.emplace_back(request);
    held.length = frame.size();
    std::ranges::copy(frame, held.bytes.begin());
    return true;
  }
  /// The peer has given it up.
  void cancel(const Gid& source, wire::CommId sender) {
    std::erase_if(held_, [&](const Request& held) { return held.source == source && held.sender == sender; });
  }
  /// Takes out those for which `is_done` says so, in the order in which they came.
  template <typename IsDone>
  void take_if(IsDone is_done) {
    std::erase_if(held_, is_done);
  }

 private:
  std::vector<Request> held_;
};

}  // namespace uroce::service
