#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/device.h"
#include "qp/connection/connection.h"
#include "tests/sim/host.h"

namespace uroce::sim {

/// A client of a crowd as both ends know it: one of its queue pairs, or, with UD, what it sends to the one
/// that serves all.
struct Member {
  uint32_t index = 0;
  qp::Type type = qp::Type::kRc;
  uint64_t seed = 0;  // of its messages
  uint32_t bytes_max = 0;
  QpNumber client;
  QpNumber server;
};

/// What the beginning of a message says of it; the rest of its bytes follow from that.
struct MessageHead {
  uint32_t member = 0;
  uint32_t number = 0;
};

/// Message `number` of a member.
std::vector<std::byte> message_of(const Member& member, uint32_t number);

/// Memory that is registered as long as this lives.
class RegisteredMemory {
 public:
  RegisteredMemory(engine::Device& device, DomainId domain, size_t bytes);
  /// A text: what is wrong.
  std::string close();

  [[nodiscard]] std::span<std::byte> bytes(size_t offset, size_t count) {
    return {memory_.data() + offset, count};
  }
  [[nodiscard]] queue::Segment segment(size_t offset, size_t count) const;

 private:
  engine::Device& device_;
  std::vector<std::byte> memory_;
  mem::RegionKeys keys_;
};

}  // namespace uroce::sim
