// The test program has five roles: without arguments of ours it runs the tests; these start it again as the
// other process of a memif, or as one without EAL.
//     ports_test --echo DEVARGS     opens the port, prints "ready", sends back what comes in until stdin ends
//     ports_test --flood DEVARGS    the same, but takes all that comes in and sends as much as fits
//     ports_test --say DEVARGS      opens the port, prints "ready", sends one frame, prints "sent" and ends
//     ports_test --open DEVARGS     opens the port without starting EAL and prints the error, if any

#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <iostream>
#include <string_view>

#include "drivers/registry.h"
#include "eal.h"
#include "flood.h"
#include "kernel_links.h"
#include "open_pair.h"
#include "port/port.h"

namespace {

using namespace uroce;

bool input_ended() {
  pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
  return poll(&input, 1, 0) > 0;
}

void send_back(port::PortQueue& queue, const port::RxFrame& received) {
  port::TxFrame frame;
  while (queue.allocate({&frame, 1}) == 0) {
  }
  std::memcpy(frame.data, received.data, received.length);
  frame.length = received.length;
  while (queue.transmit({&frame, 1}) == 0) {
    if (input_ended()) return queue.free({&frame, 1});
  }
}

void echo_once(port::PortQueue& queue) {
  std::array<port::RxFrame, 32> frames;
  const uint16_t received = queue.receive(frames);
  for (uint16_t i = 0; i < received; ++i) send_back(queue, frames[i]);
  queue.release({frames.data(), received});
}

template <typename Turn>
int serve(const char* devargs, Turn turn) {
  const std::string failure = uroce::testing::start_eal();
  if (!failure.empty()) {
    std::cout << failure << std::endl;
    return 1;
  }
  auto port = drivers::open_port({.devargs = devargs});
  if (!port) {
    std::cout << port.error().message << std::endl;
    return 1;
  }
  std::cout << "ready" << std::endl;
  port::PortQueue& queue = (*port)->queue(0);
  while (!input_ended()) turn(queue);
  return 0;
}

int say(const char* devargs) {
  if (!uroce::testing::start_eal().empty()) return 1;
  const auto port = drivers::open_port({.devargs = devargs});
  if (!port || !uroce::testing::wait_for_link(**port)) return 1;
  std::cout << "ready" << std::endl;
  if (uroce::testing::send_frames((*port)->queue(0), 0, 1, 100) != 1) return 1;
  std::cout << "sent" << std::endl;
  return 0;
}

int open_without_eal(const char* devargs) {
  const auto port = drivers::open_port({.devargs = devargs});
  std::cout << (port ? "open" : port.error().message) << std::endl;
  return port ? 0 : 1;
}

}  // namespace

/// libxdp keeps 80 bytes of each socket that net_af_xdp closes; they are not ours to free.
extern "C" const char* __lsan_default_suppressions() { return "leak:libxdp.so"; }

int main(int argc, char** argv) {
  if (argc == 3 && std::string_view(argv[1]) == "--echo") return serve(argv[2], echo_once);
  if (argc == 3 && std::string_view(argv[1]) == "--flood") return serve(argv[2], uroce::testing::flood_once);
  if (argc == 3 && std::string_view(argv[1]) == "--say") return say(argv[2]);
  if (argc == 3 && std::string_view(argv[1]) == "--open") return open_without_eal(argv[2]);
  uroce::testing::enter_namespace();
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
