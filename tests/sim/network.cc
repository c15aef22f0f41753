#include "tests/sim/network.h"

#include <algorithm>

namespace uroce::sim {

namespace {

constexpr uint32_t kFrameBytesMax = 4096 + 192;
constexpr int64_t kPicosecondsPerByte = 80;  // 100 Gbit/s

FramePtr take(void* handle) { return FramePtr(static_cast<Frame*>(handle)); }

}  // namespace

WireEnd::WireEnd(const Instant& now, Options options)
    : now_(now), options_(std::move(options)), random_(options_.seed) {
  capabilities_.description = "simulated wire";
  capabilities_.mac = options_.mac;
  capabilities_.link_mtu = kFrameBytesMax - 14;
  capabilities_.frame_bytes_max = kFrameBytesMax;
}

void WireEnd::join(WireEnd& a, WireEnd& b) {
  a.peer_ = &b;
  b.peer_ = &a;
}

uint16_t WireEnd::receive(std::span<port::RxFrame> frames) {
  uint16_t count = 0;
  while (count < frames.size() && next_arrival() <= now_) {
    const bool damaged = next_is_damaged();
    if (damaged && count > 0) break;
    Frame* frame = arriving_.begin()->second.release();
    arriving_.erase(arriving_.begin());
    frames[count++] = {frame->bytes.data(), static_cast<uint32_t>(frame->bytes.size()), frame};
    if (damaged) {
      ++damaged_received_;
      break;
    }
  }
  return count;
}

void WireEnd::release(std::span<const port::RxFrame> frames) {
  for (const port::RxFrame& frame : frames) take(frame.handle);
}

uint16_t WireEnd::allocate(std::span<port::TxFrame> frames) {
  for (port::TxFrame& slot : frames) {
    FramePtr frame = std::make_unique<Frame>();
    frame->bytes.resize(kFrameBytesMax);
    slot = {.data = frame->bytes.data(), .capacity = kFrameBytesMax, .handle = frame.get()};
    static_cast<void>(frame.release());
  }
  return static_cast<uint16_t>(frames.size());
}

uint16_t WireEnd::transmit(std::span<const port::TxFrame> frames) {
  uint16_t taken = 0;
  for (const port::TxFrame& slot : frames) {
    wire_free_ = std::max(wire_free_, now_);
    if (wire_free_ - now_ > options_.backlog_max) break;
    FramePtr frame = take(slot.handle);
    frame->bytes.resize(slot.length);
    wire_free_ = wire_free_ + nanoseconds(1 + slot.length * kPicosecondsPerByte / 1000);
    frame->arrival = wire_free_;
    ++sent_;
    ++taken;
    send(std::move(frame), 0);
  }
  return taken;
}

void WireEnd::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) take(frame.handle);
}

port::RxFrame WireEnd::loop(const port::TxFrame& frame) { return {frame.data, frame.length, frame.handle}; }

void WireEnd::send(FramePtr frame, size_t node) {
  if (node == options_.path.size()) return peer_->arrive(std::move(frame));
  options_.path[node]->pass(std::move(frame), random_,
                            [this, node](FramePtr passed) { send(std::move(passed), node + 1); });
}

void WireEnd::arrive(FramePtr frame) {
  if (arriving_.size() >= options_.ring || frame->bytes.empty()) return;
  const std::pair key(frame->arrival, arrivals_++);
  arriving_.emplace(key, std::move(frame));
}

Instant WireEnd::next_arrival() const { return arriving_.empty() ? kNever : arriving_.begin()->first.first; }

bool WireEnd::next_is_damaged() const {
  return !arriving_.empty() && arriving_.begin()->first.first <= now_ && arriving_.begin()->second->damaged;
}

}  // namespace uroce::sim
