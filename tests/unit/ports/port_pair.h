#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "port/port.h"

namespace uroce::testing {

/// Two ports joined by a wire, however that is done.
struct PortPair {
  std::unique_ptr<port::Port> near;
  std::unique_ptr<port::Port> far;
};

/// A frame that says which one it is: broadcast MAC header, an unassigned EtherType, the number, then bytes
/// that depend on the number.
void write_frame(port::TxFrame& frame, uint32_t number, uint32_t length);
/// The number when the frame is whole, -1 otherwise.
int64_t read_frame(const port::RxFrame& frame);

/// Sends frames `first` .. `first + count - 1` of `length` bytes; returns how many the port took.
uint32_t send_frames(port::PortQueue& queue, uint32_t first, uint32_t count, uint32_t length);

/// Where frames may get lost, the time after which a missing one is not waited for.
inline constexpr std::chrono::milliseconds kSoon{200};
/// Where they may not, that after which something hangs.
inline constexpr std::chrono::milliseconds kHangs{60'000};

/// Receives and releases until `count` frames have come or nothing has come for as long as `quiet`; the
/// frames' numbers.
std::vector<int64_t> receive_frames(port::PortQueue& queue, size_t count,
                                    std::chrono::milliseconds quiet = kHangs);

/// Every buffer that the queue still has.
std::vector<port::TxFrame> allocate_all(port::PortQueue& queue);

}  // namespace uroce::testing
