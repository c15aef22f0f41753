#include "far_end.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <span>
#include <thread>

#include "base/counters/counter_texts.h"
#include "base/counters/counters.h"
#include "drivers/registry.h"
#include "wire/packet.h"

namespace uroce::engine {

void require(bool holds, const std::string& what) {
  if (!holds) throw std::runtime_error(what);
}

Configuration victim_at(const std::string& port) {
  Configuration configuration = embedded_pair();
  configuration.devices.resize(1);
  configuration.devices[0].port = port;
  configuration.devices[0].neighbours = {{kStranger, MacAddress{{0x02, 0, 0, 0, 0xBA, 0xD0}}}};
  configuration.hugepages = false;
  return configuration;
}

FarEnd::FarEnd(const std::string& port) : port_(value_of(drivers::open_port({.devargs = port}))) {}

void FarEnd::come_up(const Device& device) {
  const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  const auto away = [](port::FarEnd end) { return end == port::FarEnd::kAway; };
  while (away(device.far_end()) || away(port_->far_end())) {
    require(std::chrono::steady_clock::now() < patience, "the ends do not meet");
    std::this_thread::yield();
  }
  drop_answers();
}

bool FarEnd::send(const std::vector<std::byte>& bytes) {
  port::PortQueue& queue = port_->queue(0);
  std::array<port::TxFrame, 1> frame;
  if (queue.allocate(frame) == 0) return false;
  if (bytes.size() <= frame[0].capacity) {
    std::copy(bytes.begin(), bytes.end(), frame[0].data);
    frame[0].length = static_cast<uint32_t>(bytes.size());
    if (queue.transmit(frame) == 1) return true;
  }
  queue.free(frame);
  return false;
}

size_t FarEnd::drop_answers() {
  std::array<port::RxFrame, 32> frames;
  port::PortQueue& queue = port_->queue(0);
  size_t dropped = 0;
  while (const uint16_t count = queue.receive(frames)) {
    for (const port::RxFrame& frame : std::span(frames).first(count)) {
      wire::Packet packet;
      const wire::ParseOutcome outcome = wire::parse_frame({frame.data, frame.length}, packet);
      if (outcome.result == wire::ParseResult::kRoce) ++dropped;
    }
    queue.release({frames.data(), count});
  }
  return dropped;
}

void say_counters(const Device& device) {
  std::printf(" counters");
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    std::printf(" %s %llu", std::string(texts_of(counter).label).c_str(),
                static_cast<unsigned long long>(device.counter(counter)));
  }
  std::printf("\n");
}

bool read_frame(std::vector<std::byte>& frame) {
  std::array<unsigned char, 2> length;
  if (std::fread(length.data(), 1, 2, stdin) != 2) return false;
  frame.resize(size_t{length[0]} << 8 | length[1]);
  return std::fread(frame.data(), 1, frame.size(), stdin) == frame.size();
}

}  // namespace uroce::engine
