#include "tests/sim/network.h"

#include <algorithm>
#include <cstring>

#include "drivers/port/loopback/steering.h"
#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kFrameBytesMax = 4096 + 192;

FramePtr take(void* handle) { return FramePtr(static_cast<Frame*>(handle)); }
const Frame& frame_of(void* handle) { return *static_cast<const Frame*>(handle); }

}  // namespace

WireEnd::WireEnd(Options options)
    : options_(std::move(options)),
      random_(options_.seed),
      steering_random_(~options_.seed),
      arriving_(options_.queues) {
  capabilities_.description = "simulated wire";
  capabilities_.mac = options_.mac;
  capabilities_.link_mtu = kFrameBytesMax - 14;
  capabilities_.frame_bytes_max = kFrameBytesMax;
  capabilities_.queues = options_.queues;
  for (size_t i = 0; i < options_.queues; ++i) queues_.emplace_back(*this, i);
}

WireEnd::~WireEnd() {
  for (WireEnd* const peer : peers_) std::erase(peer->peers_, this);
}

void WireEnd::join(std::span<WireEnd* const> ends) {
  for (WireEnd* const end : ends) {
    end->peers_.assign(ends.begin(), ends.end());
    std::erase(end->peers_, end);
  }
}

uint16_t WireEnd::Queue::allocate(std::span<port::TxFrame> frames) {
  for (port::TxFrame& slot : frames) {
    FramePtr frame = std::make_unique<Frame>();
    frame->bytes.resize(kFrameBytesMax);
    slot = {.data = frame->bytes.data(), .capacity = kFrameBytesMax, .handle = frame.get()};
    static_cast<void>(frame.release());
  }
  return static_cast<uint16_t>(frames.size());
}

void WireEnd::Queue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) take(frame.handle);
}

uint16_t WireEnd::transmit(std::span<const port::TxFrame> frames) {
  const std::lock_guard lock(sending_);
  const Instant now = VirtualClock::now();
  uint16_t taken = 0;
  for (const port::TxFrame& slot : frames) {
    wire_free_ = std::max(wire_free_, now);
    if (wire_free_ - now > options_.backlog_max) break;
    FramePtr frame = take(slot.handle);
    frame->bytes.resize(slot.length);
    if (options_.watch_left) options_.watch_left(*frame);
    wire_free_ = wire_free_ + nanoseconds(1 + slot.length * options_.picoseconds_per_byte / 1000);
    frame->arrival = wire_free_;
    ++sent_;
    ++taken;
    send(std::move(frame), 0);
  }
  return taken;
}

void WireEnd::send(FramePtr frame, size_t node) {
  if (node == options_.path.size()) return cross(std::move(frame));
  options_.path[node]->pass(std::move(frame), random_,
                            [this, node](FramePtr passed) { send(std::move(passed), node + 1); });
}

/// Where there is one other end everything comes to it; a switch looks at the address.
void WireEnd::cross(FramePtr frame) {
  if (peers_.empty()) return;
  if (peers_.size() == 1) return peers_[0]->arrive(std::move(frame));
  MacAddress destination;
  if (frame->bytes.size() < destination.bytes.size()) return;
  std::memcpy(destination.bytes.data(), frame->bytes.data(), destination.bytes.size());
  const bool group = (destination.bytes[0] & 1) != 0;
  for (WireEnd* const peer : peers_) {
    if (group || peer->options_.mac == destination) peer->arrive(std::make_unique<Frame>(*frame));
  }
}

void WireEnd::arrive(FramePtr frame) {
  const std::lock_guard lock(receiving_);
  if (frame->bytes.empty()) return;
  const std::pair key(frame->arrival, arrivals_++);
  Arriving& arriving = arriving_[steer(*frame)];
  if (arriving.size() < options_.ring) arriving.emplace(key, std::move(frame));
}

size_t WireEnd::steer(const Frame& frame) {
  switch (options_.steering) {
    case Steering::kHash:
      return drivers::steering_hash(frame.bytes) % queues_.size();
    case Steering::kRoundRobin:
      return arrivals_ % queues_.size();
    case Steering::kRandom:
      return steering_random_.below(queues_.size());
    case Steering::kChanging:
      return (drivers::steering_hash(frame.bytes) +
              static_cast<size_t>(frame.arrival.ns / kSteeringChangesEvery.ns)) %
             queues_.size();
  }
  return 0;
}

uint16_t WireEnd::receive(size_t queue, std::span<port::RxFrame> frames) {
  const std::lock_guard lock(receiving_);
  if (frames.empty() || damaged_inside_) return 0;
  if (const auto with_damaged = queue_with_damaged()) {
    if (*with_damaged != queue) return 0;
    const Duration waited = VirtualClock::now() - arriving_[queue].begin()->first.first;
    if (inside_ > 0 && waited < kDamagedPatience) return 0;
    // Without a quarantine memory is not watched.
    if (!quarantine_ && waited < kDamagedPatience) return 0;
    damaged_inside_ = quarantine_;
    damaged_isolated_ += quarantine_ ? 1 : 0;
    frames[0] = take_next(queue);
    return 1;
  }
  uint16_t count = 0;
  while (!quarantine_ && count < frames.size() && due(queue)) {
    if (options_.isolate_damaged && arriving_[queue].begin()->second->damaged) break;
    frames[count++] = take_next(queue);
  }
  return count;
}

port::RxFrame WireEnd::take_next(size_t queue) {
  Frame* const frame = arriving_[queue].begin()->second.release();
  arriving_[queue].erase(arriving_[queue].begin());
  ++inside_;
  damaged_received_ += frame->damaged ? 1 : 0;
  if (options_.watch_taken) options_.watch_taken(*frame);
  return {.data = frame->bytes.data(), .length = static_cast<uint32_t>(frame->bytes.size()), .handle = frame};
}

void WireEnd::release(std::span<const port::RxFrame> frames) {
  const std::lock_guard lock(receiving_);
  inside_ -= frames.size();
  for (const port::RxFrame& frame : frames) {
    if (frame_of(frame.handle).damaged) damaged_inside_ = false;
    take(frame.handle);
  }
}

port::RxFrame WireEnd::loop(const port::TxFrame& frame) {
  const std::lock_guard lock(receiving_);
  ++inside_;
  return {.data = frame.data, .length = frame.length, .handle = frame.handle};
}

bool WireEnd::due(size_t queue) const {
  return !arriving_[queue].empty() && arriving_[queue].begin()->first.first <= VirtualClock::now();
}

std::optional<size_t> WireEnd::queue_with_damaged() const {
  for (size_t i = 0; options_.isolate_damaged && i < arriving_.size(); ++i) {
    if (due(i) && arriving_[i].begin()->second->damaged) return i;
  }
  return std::nullopt;
}

Instant WireEnd::next_arrival() const {
  const std::lock_guard lock(receiving_);
  Instant next = kNever;
  for (const Arriving& arriving : arriving_) {
    if (!arriving.empty()) next = std::min(next, arriving.begin()->first.first);
  }
  return next;
}

bool WireEnd::damaged_alone() const {
  const std::lock_guard lock(receiving_);
  return damaged_inside_ ? inside_ == 1 : inside_ == 0 && queue_with_damaged().has_value();
}

void WireEnd::quarantine(bool on) {
  const std::lock_guard lock(receiving_);
  quarantine_ = on;
}

}  // namespace uroce::sim
