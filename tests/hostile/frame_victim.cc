// A device at one end of a wire inside the process, and at the other end a program with nothing but raw
// frames:
//
//   frame_victim PORT FAR_PORT < FRAMES
//
// PORT and FAR_PORT are the ends, as a configuration names them. First it says to which queue pairs the
// frames may be addressed: "queue pairs N N N". FRAMES come from then on, each behind two bytes of length.
// Two of the queue pairs are connected to each other and must go on moving the right bytes, whatever comes;
// the third one's peer is 192.0.2.66, from which the frames come, and it begins anew now and then. At the end
// it says its counters. 1: something did not hold.
#include <array>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/counter_texts.h"
#include "base/counters.h"
#include "drivers/registry.h"
#include "engine/device/device_state.h"
#include "engine/device/stack.h"
#include "tests/unit/engine/connected_pair.h"

namespace uroce::engine {
namespace {

constexpr uint64_t kFramesPerWrite = 250;
constexpr size_t kBufferBytes = 5000;
constexpr Psn kFirstPsn{1000};
const Gid kStranger = Gid::from_ipv4({192, 0, 2, 66});

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

template <typename Value>
Value value_of(Result<Value> result) {
  if (!result) throw std::runtime_error(result.error().message);
  return std::move(*result);
}

Configuration configuration_of(const std::string& port) {
  Configuration configuration = embedded_pair();
  configuration.devices.resize(1);
  configuration.devices[0].port = port;
  configuration.devices[0].neighbours = {{kStranger, MacAddress{{0x02, 0, 0, 0, 0xBA, 0xD0}}}};
  configuration.hugepages = false;
  return configuration;
}

/// The far end of the wire.
class Stranger {
 public:
  explicit Stranger(const std::string& port) : port_(value_of(drivers::open_port({.devargs = port}))) {}

  void send(const std::vector<std::byte>& bytes) {
    port::PortQueue& queue = port_->queue(0);
    std::array<port::TxFrame, 1> frame;
    if (queue.allocate(frame) == 0 || bytes.size() > frame[0].capacity) return;
    std::copy(bytes.begin(), bytes.end(), frame[0].data);
    frame[0].length = static_cast<uint32_t>(bytes.size());
    if (queue.transmit(frame) == 0) queue.free(frame);
  }
  /// Whatever the answer was.
  void drop_answers() {
    std::array<port::RxFrame, 32> frames;
    port::PortQueue& queue = port_->queue(0);
    while (const uint16_t count = queue.receive(frames)) queue.release({frames.data(), count});
  }

 private:
  std::unique_ptr<port::Port> port_;
};

/// To RTS, from whatever state, towards the stranger.
void connect_to_stranger(Side& side) {
  using namespace qp;
  qp::Attributes a;
  const auto step = [&](State state, AttributeMask mask) {
    a.state = state;
    require(side.device().modify_queue_pair(side.queue_pair(), a, mask | kMaskState) == 0, "no connection");
  };
  step(State::kReset, {});
  a.access = mem::kLocalWrite | mem::kRemoteWrite | mem::kRemoteRead | mem::kRemoteAtomic;
  step(State::kInit, kMaskPkeyIndex | kMaskPort | kMaskAccessFlags);
  a.path.source = side.device().gids().at(1);
  a.path.destination = kStranger;
  a.path_mtu = PathMtu::k1024;
  a.destination = QpNumber{0x66};
  a.rq_psn = a.sq_psn = kFirstPsn;
  a.max_dest_rd_atomic = 4;
  a.min_rnr_timer = 1;
  step(State::kRtr,
       kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn | kMaskMaxDestRdAtomic | kMaskMinRnrTimer);
  a.timeout = 14;
  a.retry_count = a.rnr_retry = 7;
  a.max_rd_atomic = 4;
  step(State::kRts, kMaskSqPsn | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic);
  side.post_receive(1000);
  while (side.poll()) {
  }
}

/// False at the end of the input.
bool read_frame(std::vector<std::byte>& frame) {
  std::array<unsigned char, 2> length;
  if (std::fread(length.data(), 1, 2, stdin) != 2) return false;
  frame.resize(size_t{length[0]} << 8 | length[1]);
  return std::fread(frame.data(), 1, frame.size(), stdin) == frame.size();
}

void expect_write(Side& from, Side& to, uint64_t number) {
  fill(from.buffer(), number);
  from.post_write(to, kBufferBytes, number);
  require(from.wait().status == queue::CompletionStatus::kSuccess, "a WRITE between others failed");
  require(from.buffer() == to.buffer(), "a WRITE between others brought other bytes");
}

void run(const std::string& port, const std::string& far_port) {
  const std::unique_ptr<Stack> stack = value_of(Stack::create(configuration_of(port)));
  const std::shared_ptr<Device> device = value_of(stack->open(0));
  Stranger stranger(far_port);
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
    stranger.send(frame);
    if (sent % 16 == 0) static_cast<void>(strangers.poll());
    if (sent % 16 == 0) stranger.drop_answers();
    if (sent % kFramesPerWrite != 0) continue;
    expect_write(one, other, sent);
    connect_to_stranger(strangers);
  }
  expect_write(other, one, sent);
  std::printf("frames %llu counters", static_cast<unsigned long long>(sent));
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    std::printf(" %s %llu", std::string(texts_of(counter).label).c_str(),
                static_cast<unsigned long long>(device->counter(counter)));
  }
  std::printf("\n");
}

}  // namespace
}  // namespace uroce::engine

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  try {
    uroce::engine::run(argv[1], argv[2]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "frame_victim: %s\n", error.what());
    return 1;
  }
}
