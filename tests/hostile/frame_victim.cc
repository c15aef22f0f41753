// A device at one end of a wire inside the process, and at the other end a program with nothing but raw
// frames:
//
//   frame_victim PORT FAR_PORT [UNUSED] < FRAMES
//
// PORT and FAR_PORT are the ends, as a configuration names them. First it says to which queue pairs the
// frames may be addressed: "queue pairs N N N". FRAMES come from then on, each behind two bytes of length.
// Two of the queue pairs are connected to each other and must go on moving the right bytes, whatever comes;
// the third one's peer is 192.0.2.66, from which the frames come, and it begins anew now and then. At the end
// it says its counters. With UNUSED it is another victim: unused_victim.h. 1: something did not hold.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "engine/device/stack.h"
#include "far_end.h"
#include "tests/unit/engine/bring_up.h"
#include "tests/unit/engine/connected_pair.h"
#include "unused_victim.h"

namespace uroce::engine {
namespace {

constexpr uint64_t kFramesPerWrite = 250;
constexpr size_t kBufferBytes = 5000;

/// To RTS, from whatever state, towards the stranger.
void connect_to_stranger(Side& side) {
  Device& device = side.device();
  qp::Attributes reset;
  require(device.modify_queue_pair(side.queue_pair(), reset, qp::kMaskState) == 0, "no reset");
  const FarPeer peer{kStranger, QpNumber{0x66}, kFirstPsn};
  require(bring_up(device, side.queue_pair(), qp::Type::kRc, peer) == 0, "no connection");
  side.post_receive(1000);
  while (side.poll()) {
  }
}

void expect_write(Side& from, Side& to, uint64_t number) {
  fill(from.buffer(), number);
  from.post_write(to, kBufferBytes, number);
  require(from.wait().status == queue::CompletionStatus::kSuccess, "a WRITE between others failed");
  require(from.buffer() == to.buffer(), "a WRITE between others brought other bytes");
}

void run(const std::string& port, const std::string& far_port) {
  const std::unique_ptr<Stack> stack = value_of(Stack::create(victim_at(port)));
  const std::shared_ptr<Device> device = value_of(stack->open(0));
  FarEnd stranger(far_port);
  // A memif has room for us only after its far end was connected and has received once.
  stranger.come_up(*device);
  Side one(device, kBufferBytes);
  Side other(device, kBufferBytes);
  Side strangers(device, kBufferBytes);
  require(one.connect(other) == 0 && other.connect(one) == 0, "no connection");
  connect_to_stranger(strangers);
  std::printf("queue pairs %u %u %u\n", one.queue_pair().number.value, other.queue_pair().number.value,
              strangers.queue_pair().number.value);
  std::fflush(stdout);
  std::vector<std::byte> frame;
  uint64_t sent = 0;
  for (; read_frame(frame); ++sent) {
    static_cast<void>(stranger.send(frame));
    if (sent % 16 == 0) static_cast<void>(strangers.poll());
    if (sent % 16 == 0) static_cast<void>(stranger.drop_answers());
    if (sent % kFramesPerWrite != 0) continue;
    expect_write(one, other, sent);
    connect_to_stranger(strangers);
  }
  expect_write(other, one, sent);
  std::printf("frames %llu", static_cast<unsigned long long>(sent));
  say_counters(*device);
}

}  // namespace
}  // namespace uroce::engine

int main(int argc, char** argv) {
  if (argc != 3 && argc != 4) return 2;
  try {
    if (argc == 4) {
      uroce::engine::run_unused(argv[1], argv[2], std::stoul(argv[3]));
    } else {
      uroce::engine::run(argv[1], argv[2]);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "frame_victim: %s\n", error.what());
    return 1;
  }
}
