// Frames from one end of a wire inside the process to the other, without any protocol, each copied, summed
// up, verified and placed, turned by one thread: for counting the instructions of what any protocol has to do
// with the memory and the port.
//
//   valgrind --tool=callgrind --toggle-collect=measured_operations bare_frames --bytes 138 --frames 4096
//
// With --alone one frame is under way at a time, and the far end acknowledges it with a short one.
//
// perf/run counts the instructions of measured_operations(), and those of measured_far_end() alone, as of
// one_thread.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>

#include "perf/end_to_end/bare_end.h"

namespace uroce::perf {

extern "C" {
void measured_operations(BareEnd& near, BareEnd& far, uint32_t bytes, uint64_t frames, bool alone);
uint64_t measured_far_end(BareEnd& far);  // or the near one, of acknowledgements
}

[[gnu::noinline]] void measured_operations(BareEnd& near, BareEnd& far, uint32_t bytes, uint64_t frames,
                                           bool alone) {
  for (uint64_t number = 0; alone && number < frames; ++number) {
    near.send({.kind = Kind::kFlood, .treatment = Treatment::kPlaced, .number = number}, bytes, 1);
    while (measured_far_end(far) == 0) {
    }
    far.send({.kind = Kind::kAcknowledgement, .treatment = Treatment::kPlaced},
             BareEnd::kAcknowledgementBytes, 1);
    while (measured_far_end(near) == 0) {
    }
  }
  if (alone) return;
  uint64_t arrived = 0;
  for (uint64_t sent = 0; arrived < frames;) {
    const auto now = static_cast<uint16_t>(std::min<uint64_t>(frames - sent, BareEnd::kBurst));
    sent += near.send({.kind = Kind::kFlood, .treatment = Treatment::kPlaced, .number = sent}, bytes, now);
    arrived += measured_far_end(far);
  }
}

/// How many frames arrived.
[[gnu::noinline]] uint64_t measured_far_end(BareEnd& far) {
  return far.receive([](const BareHeader&, uint32_t) {});
}

}  // namespace uroce::perf

int main(int argc, char** argv) {
  CLI::App app("Frames without a protocol, to count instructions by");
  uint32_t bytes = 138;
  uint64_t frames = 4096;
  bool alone = false;
  app.add_option("--bytes", bytes, "of a frame")->check(CLI::Range(128, 9000));
  app.add_option("--frames", frames, "that count")->check(CLI::PositiveNumber);
  app.add_flag("--alone", alone, "one at a time, each acknowledged");
  CLI11_PARSE(app, argc, argv);
  try {
    uroce::perf::BareEnd near({.devargs = "loopback0"});
    uroce::perf::BareEnd far({.devargs = "loopback1"});
    uroce::perf::measured_operations(near, far, bytes, frames, alone);
  } catch (const std::exception& error) {
    fmt::print(stderr, "bare_frames: {}\n", error.what());
    return 1;
  }
}
