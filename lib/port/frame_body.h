#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "port/port.h"

// A long frame that another process of this host sends need not be copied before its payload is placed: of
// such a frame only what is looked at, its headers and its ICRC, is copied to RxFrame::data. The rest is read
// where it is. Its sender may change it at any time, which is no worse than another payload; but nothing is
// to be decided by a byte that is read there.
namespace uroce::port {

/// More than the headers of any RoCE packet have.
inline constexpr uint32_t kFrameHeadBytes = 128;
/// Bytes of the ICRC, with which a frame ends.
inline constexpr uint32_t kFrameTailBytes = 4;
/// Frames that are shorter are copied as a whole: that costs less than the care.
inline constexpr uint32_t kFrameWithBodyMin = 512;

/// Copies to `frame.data` what of `body` is looked at, and leaves the rest there.
inline void take_head_and_tail(RxFrame& frame, const std::byte* body) {
  std::memcpy(frame.data, body, kFrameHeadBytes);
  const uint32_t tail = frame.length - kFrameTailBytes;
  std::memcpy(frame.data + tail, body + tail, kFrameTailBytes);
  frame.body = body;
}

/// Copies what was left: before all of the frame is looked at, or it is kept.
inline void take_body(RxFrame& frame) {
  if (frame.body == nullptr) [[likely]]
    return;
  const uint32_t left = frame.length - kFrameHeadBytes - kFrameTailBytes;
  std::memcpy(frame.data + kFrameHeadBytes, frame.body + kFrameHeadBytes, left);
  frame.body = nullptr;
}

}  // namespace uroce::port
