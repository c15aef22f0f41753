#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace uroce::judge {

enum class Kind : uint8_t {
  kSend,
  kSendImmediate,
  kSendInvalidate,  // ends a window of the responder's
  kWrite,
  kWriteImmediate,
  kRead,
  kFetchAdd,
  kCompareSwap,
  kBind,             // a spare window of the requester's own
  kLocalInvalidate,  // and its end
};

constexpr bool is_atomic(Kind kind) { return kind == Kind::kFetchAdd || kind == Kind::kCompareSwap; }
constexpr bool is_write(Kind kind) { return kind == Kind::kWrite || kind == Kind::kWriteImmediate; }
constexpr bool is_local(Kind kind) { return kind == Kind::kBind || kind == Kind::kLocalInvalidate; }
/// The responder's memory goes to the requester.
constexpr bool brings_data(Kind kind) { return kind == Kind::kRead || is_atomic(kind); }
constexpr bool is_send(Kind kind) { return kind <= Kind::kSendInvalidate; }
constexpr bool takes_receive(Kind kind) { return is_send(kind) || kind == Kind::kWriteImmediate; }
const char* name_of(Kind kind);

/// Memory of the responder that the requester may use.
inline constexpr uint32_t kTargetBytes = 128 << 10;
inline constexpr uint32_t kMessageBytesMax = 64 << 10;
inline constexpr uint32_t kDepthMax = 128;
/// Windows of each end over its target, and one more that only itself uses.
inline constexpr uint32_t kWindows = 4;
inline constexpr uint32_t kSegmentsMax = 3;
/// The region's own key, in place of a window.
inline constexpr uint32_t kNoWindow = kWindows;

struct Range {
  uint32_t offset = 0;
  uint32_t length = 0;
};

/// One request of a list, as both ends know it before it is posted.
struct Operation {
  Kind kind = Kind::kSend;
  bool signaled = true;
  bool fence = false;
  bool inlined = false;
  uint8_t segments = 1;         // of both ends' scatter and gather lists, unless the message is empty
  uint32_t window = kNoWindow;  // whose key it names
  uint32_t length = 0;          // of the message
  uint32_t target = 0;          // offset in the responder's target
  uint32_t slot = 0;            // offset of the requester's bytes in its arena
  uint32_t receive_slot = 0;    // offset of the receive in the responder's arena
  uint32_t receive_length = 0;  // of the receive, which may be longer than the message
  uint32_t immediate = 0;
  uint64_t operand = 0;  // what is added or swapped in
  uint64_t compare = 0;
  uint64_t seed = 0;  // of the message's bytes
};

/// What one end asks of the other in a round.
struct List {
  std::vector<Operation> operations;
  uint32_t depth = 1;         // most requests that are posted and not known to be complete
  uint32_t batch_max = 1;     // most requests of one ibv_post_send
  uint32_t receives_max = 1;  // most receives that are posted at once
  uint64_t target_seed = 0;   // of the target's first bytes
  uint64_t pace_seed = 0;     // of what the ends decide as they go
  std::array<Range, kWindows> windows{};
  uint32_t arena_bytes = 0;    // that the slots take at the requester
  uint32_t receive_bytes = 0;  // and at the responder
};

}  // namespace uroce::judge
