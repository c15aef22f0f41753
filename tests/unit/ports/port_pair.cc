#include "port_pair.h"

#include <array>
#include <chrono>
#include <cstring>
#include <thread>

namespace uroce::testing {
namespace {

constexpr size_t kNumberOffset = 14;
constexpr size_t kPayloadOffset = 18;

std::byte pattern(uint32_t number, size_t offset) { return static_cast<std::byte>(number * 31 + offset * 7); }

}  // namespace

void write_frame(port::TxFrame& frame, uint32_t number, uint32_t length) {
  std::memset(frame.data, 0xFF, 6);
  std::memset(frame.data + 6, 0x02, 6);
  frame.data[12] = std::byte{0x88};
  frame.data[13] = std::byte{0xB5};
  std::memcpy(frame.data + kNumberOffset, &number, sizeof number);
  for (size_t i = kPayloadOffset; i < length; ++i) frame.data[i] = pattern(number, i);
  frame.length = length;
}

int64_t read_frame(const port::RxFrame& frame) {
  if (frame.length < kPayloadOffset) return -1;
  uint32_t number = 0;
  std::memcpy(&number, frame.data + kNumberOffset, sizeof number);
  for (size_t i = kPayloadOffset; i < frame.length; ++i) {
    if (frame.data[i] != pattern(number, i)) return -1;
  }
  return number;
}

uint32_t send_frames(port::PortQueue& queue, uint32_t first, uint32_t count, uint32_t length) {
  for (uint32_t i = 0; i < count; ++i) {
    port::TxFrame frame;
    if (queue.allocate({&frame, 1}) == 0) return i;
    write_frame(frame, first + i, length);
    if (queue.transmit({&frame, 1}) == 0) {
      queue.free({&frame, 1});
      return i;
    }
  }
  return count;
}

std::vector<int64_t> receive_frames(port::PortQueue& queue, size_t count, std::chrono::milliseconds quiet) {
  using Clock = std::chrono::steady_clock;
  std::vector<int64_t> numbers;
  Clock::time_point give_up = Clock::now() + quiet;
  while (numbers.size() < count && Clock::now() < give_up) {
    std::array<port::RxFrame, 32> frames;
    const uint16_t received = queue.receive(frames);
    for (uint16_t i = 0; i < received; ++i) numbers.push_back(read_frame(frames[i]));
    queue.release({frames.data(), received});
    if (received > 0) {
      give_up = Clock::now() + quiet;
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
  }
  return numbers;
}

std::vector<port::TxFrame> allocate_all(port::PortQueue& queue) {
  std::vector<port::TxFrame> all;
  port::TxFrame frame;
  while (queue.allocate({&frame, 1}) == 1) all.push_back(frame);
  return all;
}

}  // namespace uroce::testing
