#include "tests/sim/faults.h"

#include <algorithm>

namespace uroce::sim {

namespace {

Duration up_to(Duration most, Random& random) {
  return nanoseconds(static_cast<int64_t>(random.below(static_cast<uint64_t>(most.ns) + 1)));
}

bool is_ip(const Frame& frame) {
  const unsigned version = std::to_integer<unsigned>(frame.bytes[14]) >> 4;
  return version == 4 || version == 6;
}

/// True when the ICRC covers the byte of an untagged frame (lib/README.md, wire fact 3): not the Ethernet
/// header, nor what a router may change.
bool covered(const std::vector<std::byte>& frame, size_t offset) {
  constexpr size_t kIp = 14;
  if (offset < kIp) return false;
  const size_t at = offset - kIp;
  const bool ipv4 = std::to_integer<unsigned>(frame[kIp]) >> 4 == 4;
  const size_t ip_bytes = ipv4 ? 20 : 40;
  const bool ip_variant = ipv4 ? at == 1 || at == 8 || at == 10 || at == 11 : at <= 3 || at == 7;
  const bool udp_checksum = at == ip_bytes + 6 || at == ip_bytes + 7;
  const bool bth_variant = at == ip_bytes + 8 + 4;
  return !ip_variant && !udp_checksum && !bth_variant;
}

}  // namespace

void Drop::pass(FramePtr frame, Random& random, const Sink& next) {
  if (!random.chance(probability_, kPer)) next(std::move(frame));
}

void Outage::pass(FramePtr frame, Random&, const Sink& next) {
  if (frame->arrival < begin_ || frame->arrival >= end_) next(std::move(frame));
}

void Duplicate::pass(FramePtr frame, Random& random, const Sink& next) {
  FramePtr copy;
  if (random.chance(probability_, kPer)) {
    copy = std::make_unique<Frame>(*frame);
    copy->arrival = copy->arrival + up_to(later_, random);
  }
  next(std::move(frame));
  if (copy != nullptr) next(std::move(copy));
}

void Delay::pass(FramePtr frame, Random& random, const Sink& next) {
  frame->arrival = frame->arrival + time_;
  if (random.chance(probability_, kPer)) frame->arrival = frame->arrival + up_to(extra_, random);
  next(std::move(frame));
}

void Corrupt::pass(FramePtr frame, Random& random, const Sink& next) {
  if (random.chance(probability_, kPer)) {
    if (!is_ip(*frame)) return;  // has no checksum but the link's, which would have noticed
    const std::vector<std::byte> sent = frame->bytes;
    for (uint64_t flips = 1 + random.below(3); flips > 0; --flips) {
      frame->bytes[random.below(frame->bytes.size())] ^= static_cast<std::byte>(1 + random.below(255));
    }
    for (size_t i = 0; i < sent.size(); ++i) {
      frame->damaged |= frame->bytes[i] != sent[i] && covered(sent, i);
    }
  }
  next(std::move(frame));
}

void Truncate::pass(FramePtr frame, Random& random, const Sink& next) {
  if (random.chance(probability_, kPer)) {
    frame->bytes.resize(random.below(frame->bytes.size()));
    frame->damaged = true;
  }
  next(std::move(frame));
}

}  // namespace uroce::sim
