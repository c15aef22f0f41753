#pragma once

#include <cstdint>

namespace uroce::engine {

/// Limits that hold for every device; what the verbs face advertises.
struct Limits {
  static constexpr uint32_t kQueuePairs = 1u << 20;
  static constexpr uint32_t kWorkRequests = 16384;  // per queue
  static constexpr uint32_t kSegments = 32;         // per request
  static constexpr uint32_t kInlineBytes = 1024;
  static constexpr uint32_t kSharedReceiveQueues = 1u << 17;
  static constexpr uint32_t kXrcDomains = 1u << 17;
  static constexpr uint32_t kCompletionQueues = 1u << 17;
  static constexpr uint32_t kCompletions = 1u << 20;  // per queue
  static constexpr uint32_t kKeys = 1u << 24;  // indexes; 0 is not used, and one is the reserved L_Key's
  static constexpr uint32_t kRegions = kKeys - 2;
  static constexpr uint32_t kWindows = kKeys - 2;  // and regions, together
  static constexpr uint64_t kRegionBytes = 1ull << 46;
  static constexpr uint32_t kDomains = 1u << 17;
  static constexpr uint32_t kAddressHandles = 1u << 17;
  /// Connections of the communication manager, which has memory for all of them.
  static constexpr uint32_t kConnections = 1u << 15;
  static constexpr uint32_t kGroups = 1024;
  static constexpr uint32_t kGroupMembers = 64;   // a packet is copied to each
  static constexpr uint32_t kMemberships = 8192;  // of all groups together
  // READs of a queue pair under way. Programs take the peer's limit for what they send, so the one for
  // sending is that of peers with much room.
  static constexpr uint8_t kReadsSent = 128;
  static constexpr uint8_t kReadsAnswered = 16;
  /// How long an ACK may wait here: 4.096 us times 2 to it. As Linux's rxe.
  static constexpr uint8_t kAckDelay = 15;
};

}  // namespace uroce::engine
