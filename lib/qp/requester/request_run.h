#pragma once

#include <bit>
#include <cstdint>

#include "qp/connection/frame_run.h"
#include "queue/work_request.h"

namespace uroce::qp {

/// What the send work requests of a run have in common: each is a SEND or WRITE of one packet, or a READ that
/// is answered by one, and its packet differs from the one before in nothing but PSN, payload and place. So
/// what is decided of one holds for the others, and the frame of each is a copy of the last one's headers.
struct RequestRun {
  uint32_t flags = 0;  // of the requests, but for kSignaled
  uint32_t length = 0;
  uint16_t segments = 0;
  queue::SendOperation operation = queue::SendOperation::kSend;
  uint32_t kind = 0;  // FrameTemplate::kind() of the packets; 0: there is no run
  FrameRun::Shape shape;

  static constexpr uint32_t kSignaled = std::bit_cast<uint32_t>(queue::SendFlags{.signaled = true});
  static constexpr uint32_t kFence = std::bit_cast<uint32_t>(queue::SendFlags{.fence = true});

  static uint32_t flags_of(const queue::SendRequest& request) {
    return std::bit_cast<uint32_t>(static_cast<const queue::SendFlags&>(request)) & ~kSignaled;
  }
  /// A run may begin with it.
  static bool may_begin(const queue::SendRequest& request) {
    using queue::SendOperation;
    return (request.operation == SendOperation::kSend || request.operation == SendOperation::kWrite ||
            request.operation == SendOperation::kRead) &&
           request.packets == 1 && request.length > 0 && (flags_of(request) & kFence) == 0 &&
           (request.segments == 1 || request.inline_data);
  }
  [[nodiscard]] bool goes_on_with(const queue::SendRequest& request) const {
    return flags_of(request) == flags && request.length == length && request.operation == operation &&
           request.segments == segments;
  }
  [[nodiscard]] bool sends() const { return operation == queue::SendOperation::kSend; }
  [[nodiscard]] bool reads() const { return operation == queue::SendOperation::kRead; }
};

}  // namespace uroce::qp
