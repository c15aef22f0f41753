#include "fed_port.h"

#include "tests/sim/virtual_clock.h"

namespace uroce::replay {

namespace {

constexpr uint32_t kFrameBytesMax = 4096 + 192;

std::unique_ptr<FedPort::Bytes> take(void* handle) {
  return std::unique_ptr<FedPort::Bytes>(static_cast<FedPort::Bytes*>(handle));
}

}  // namespace

FedPort::FedPort(MacAddress mac) {
  capabilities_.description = "replayed";
  capabilities_.mac = mac;
  capabilities_.link_mtu = kFrameBytesMax - 14;
  capabilities_.frame_bytes_max = kFrameBytesMax;
}

uint16_t FedPort::receive(std::span<port::RxFrame> frames) {
  uint16_t count = 0;
  while (count < frames.size() && !waiting_.empty()) {
    Bytes* const bytes = waiting_.front().release();
    waiting_.pop_front();
    frames[count++] = {
        .data = bytes->data(), .length = static_cast<uint32_t>(bytes->size()), .handle = bytes};
  }
  return count;
}

void FedPort::release(std::span<const port::RxFrame> frames) {
  for (const port::RxFrame& frame : frames) take(frame.handle);
}

uint16_t FedPort::allocate(std::span<port::TxFrame> frames) {
  for (port::TxFrame& frame : frames) {
    auto bytes = std::make_unique<Bytes>(kFrameBytesMax);
    frame = {.data = bytes->data(), .capacity = kFrameBytesMax, .handle = bytes.get()};
    static_cast<void>(bytes.release());
  }
  return static_cast<uint16_t>(frames.size());
}

uint16_t FedPort::transmit(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) {
    auto bytes = take(frame.handle);
    bytes->resize(frame.length);
    sent_.push_back({std::move(*bytes), sim::VirtualClock::now()});
  }
  return static_cast<uint16_t>(frames.size());
}

void FedPort::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) take(frame.handle);
}

port::RxFrame FedPort::loop(const port::TxFrame& frame) {
  return {.data = frame.data, .length = frame.length, .handle = frame.handle};
}

}  // namespace uroce::replay
