#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/values/identifiers.h"
#include "qp/attributes/attributes.h"

namespace uroce::qp {

/// Why a queue pair failed: name, and what people are told.
// clang-format off
#define UROCE_FAILURES(X)                                                                              \
  X(kNone, "")                                                                                         \
  X(kRetryExceeded, "retries were used up, and the peer does not acknowledge")                         \
  X(kRnrRetryExceeded, "RNR retries were used up, and the peer has no receive request")                \
  X(kRemoteAccess, "the peer refused a key or an address (NAK, remote access error)")                  \
  X(kRemoteInvalidRequest, "the peer refused a request as invalid (NAK, invalid request)")             \
  X(kRemoteOperation, "the peer could not execute a request (NAK, remote operational error)")          \
  X(kLocalProtection, "memory of a request may not be used so, or is gone")                            \
  X(kBadResponse, "the peer's response does not belong to the request")                                \
  X(kResponseLength, "the peer's response has another length than was asked for")                      \
  X(kRegionOperation, "a region or window could not be bound or invalidated")                          \
  X(kRequest, "a send request failed")                                                                 \
  X(kCompletionQueueFull, "a completion queue was full")                                               \
  X(kAccessRefused, "a request of the peer was refused (remote access error)")                         \
  X(kInvalidRefused, "a request of the peer was refused (invalid request)")                            \
  X(kOperationRefused, "the queue pair's access flags forbid the peer's request (invalid request)")    \
  X(kReceiveMemory, "memory of a receive request may not be used so, or is gone")                      \
  X(kMemoryGone, "registered memory that a request of the peer named is gone")
// clang-format on

enum class Failure : uint8_t {
#define X(name, text) name,
  UROCE_FAILURES(X)
#undef X
      kCount
};

constexpr std::string_view text_of(Failure failure) {
  constexpr std::array<std::string_view, static_cast<size_t>(Failure::kCount)> kTexts{
#define X(name, text) text,
      UROCE_FAILURES(X)
#undef X
  };
  return kTexts[static_cast<size_t>(failure)];
}

/// Something that is rare and of interest for a log.
struct Notice {
  enum class Kind : uint8_t {
    kState,        // the queue pair went from one state to another
    kInvalidated,  // it ended the binding of `key`
  };
  Kind kind = Kind::kState;
  State from = State::kReset;
  State to = State::kReset;
  Failure failure = Failure::kNone;  // that led to `to`; none: it was ordered
  QpNumber queue_pair;
  QpNumber peer;                  // its queue pair at the other end; 0: none
  uint32_t completion_queue = 0;  // kCompletionQueueFull: that one's number; 0: it has none
  MemoryKey key;  // kInvalidated; and of a request of the peer that was refused for it, otherwise 0
  Gid address;    // of the peer
};

/// Told by the poller in the middle of a turn. Must not block.
class NoticeListener {
 public:
  virtual void note(const Notice& notice) = 0;

 protected:
  ~NoticeListener() = default;
};

}  // namespace uroce::qp
