#include "apps/decode/capture_losses.h"

#include <algorithm>
#include <cstring>
#include <numeric>

namespace uroce::decode {
namespace {

// draft-ietf-opsawg-pcapng.
constexpr uint32_t kSection = 0x0A0D0D0A;
constexpr uint32_t kByteOrder = 0x1A2B3C4D;
constexpr uint32_t kInterface = 1;
constexpr uint32_t kObsoletePacket = 2;
constexpr uint32_t kSimplePacket = 3;
constexpr uint32_t kStatistics = 5;
constexpr uint32_t kEnhancedPacket = 6;
constexpr uint16_t kPacketDropCount = 4;
constexpr uint16_t kInterfaceDropped = 5;
constexpr uint16_t kSystemDropped = 7;

constexpr uint32_t kPacketFixedBytes = 16;  // of an Enhanced Packet Block, behind the head
constexpr uint32_t kTimeBytes = 8;          // of statistics, behind the head
constexpr uint32_t kLengthBytes = 4;        // at the end of each block
/// Options beyond that are passed over, and interfaces beyond that not told apart.
constexpr uint32_t kOptionBytesMax = 1u << 16;
constexpr size_t kInterfacesMax = 4096;

constexpr uint32_t padded(uint32_t bytes) { return (bytes + 3) & ~3u; }

}  // namespace

void CaptureLosses::pass(std::span<const std::byte> bytes) {
  while (!bytes.empty() && part_ != Part::kUnknown) {
    const auto some = bytes.first(std::min<uint64_t>(left_, bytes.size()));
    if (part_ != Part::kData) part_bytes_.insert(part_bytes_.end(), some.begin(), some.end());
    left_ -= some.size();
    bytes = bytes.subspan(some.size());
    if (left_ == 0) end_of_part();
  }
}

uint64_t CaptureLosses::before(uint64_t frame) {
  uint64_t frames = 0;
  for (; !lost_.empty() && lost_.front().frame <= frame; lost_.pop_front()) frames += lost_.front().frames;
  return frames;
}

uint64_t CaptureLosses::total() const {
  return std::accumulate(
      interfaces_.begin(), interfaces_.end(), uint64_t{0},
      [](uint64_t sum, const Interface& one) { return sum + std::max(one.at_packets, one.in_statistics); });
}

/// A part without bytes is over at once; packet data is followed by options.
void CaptureLosses::next(Part part, uint64_t bytes) {
  part_ = part;
  left_ = bytes;
  part_bytes_.clear();
  if (left_ == 0) end_of_part();
}

void CaptureLosses::end_of_part() {
  switch (part_) {
    case Part::kHead:
      return begin_block();
    case Part::kPacket:
      return begin_packet();
    case Part::kData: {
      const uint32_t options = options_bytes_;
      options_bytes_ = 0;
      return options > 0 ? next(Part::kPacketOptions, options) : next(Part::kHead, kHeadBytes);
    }
    case Part::kPacketOptions:
      for_options(0, [&](uint16_t code, size_t at) {
        if (code == kPacketDropCount) add_lost(double_word(at));
      });
      return next(Part::kHead, kHeadBytes);
    case Part::kStatistics: {
      uint64_t dropped = 0;
      for_options(kTimeBytes, [&](uint16_t code, size_t at) {
        if (code == kInterfaceDropped || code == kSystemDropped) dropped += double_word(at);
      });
      if (Interface* const one = interface()) one->in_statistics = dropped;
      return next(Part::kHead, kHeadBytes);
    }
    case Part::kUnknown:
      return;
  }
}

void CaptureLosses::begin_block() {
  const uint32_t type = word(0);
  if (type == kSection) return begin_section(word(8), word(4));
  const uint32_t length = word(4);
  if (!in_section_ || length < kHeadBytes) {
    part_ = Part::kUnknown;
    return;
  }
  block_left_ = padded(length) - kHeadBytes;
  interface_ = word(8);
  switch (type) {
    case kInterface:
      if (interfaces_.size() < kInterfacesMax) interfaces_.emplace_back();
      break;
    case kObsoletePacket:
      ++frames_;
      interface_ = half(8);
      if (half(10) != UINT16_MAX) add_lost(half(10));
      break;
    case kSimplePacket:
      ++frames_;
      break;
    case kEnhancedPacket:
      ++frames_;
      if (block_left_ >= kPacketFixedBytes + kLengthBytes) return next(Part::kPacket, kPacketFixedBytes);
      break;
    case kStatistics:
      if (block_left_ <= kOptionBytesMax) return next(Part::kStatistics, block_left_);
      break;
    default:
      break;
  }
  next(Part::kData, block_left_);
}

void CaptureLosses::begin_section(uint32_t byte_order, uint32_t length) {
  if (byte_order != kByteOrder) {
    swapped_ = !swapped_;
    byte_order = __builtin_bswap32(byte_order);
    length = __builtin_bswap32(length);
  }
  if (byte_order != kByteOrder || length < kHeadBytes) {
    part_ = Part::kUnknown;
    return;
  }
  in_section_ = true;
  section_interface_ = interfaces_.size();
  next(Part::kData, padded(length) - kHeadBytes);
}

void CaptureLosses::begin_packet() {
  const uint32_t data = word(8);
  const uint32_t left = block_left_ - kPacketFixedBytes;
  if (data > left || padded(data) + kLengthBytes > left) return next(Part::kData, left);
  const uint32_t options = left - padded(data);
  if (options > kOptionBytesMax) return next(Part::kData, left);
  options_bytes_ = options;
  next(Part::kData, padded(data));
}

/// visit(code, place) sees the options of 8 bytes from `at` on in the part, which ends with the block's
/// length.
template <typename Visit>
void CaptureLosses::for_options(size_t at, Visit visit) const {
  while (at + 4 + kLengthBytes <= part_bytes_.size()) {
    const uint16_t code = half(at);
    const uint16_t bytes = half(at + 2);
    if (code == 0 || at + 4 + bytes + kLengthBytes > part_bytes_.size()) return;
    if (bytes == sizeof(uint64_t)) visit(code, at + 4);
    at += 4 + padded(bytes);
  }
}

CaptureLosses::Interface* CaptureLosses::interface() {
  const size_t index = section_interface_ + interface_;
  return index < interfaces_.size() ? &interfaces_[index] : nullptr;
}

void CaptureLosses::add_lost(uint64_t frames) {
  if (frames == 0) return;
  lost_.push_back({frames_, frames});
  if (Interface* const one = interface()) one->at_packets += frames;
}

uint16_t CaptureLosses::half(size_t at) const {
  uint16_t value;
  std::memcpy(&value, part_bytes_.data() + at, sizeof value);
  return swapped_ ? __builtin_bswap16(value) : value;
}

uint32_t CaptureLosses::word(size_t at) const {
  uint32_t value;
  std::memcpy(&value, part_bytes_.data() + at, sizeof value);
  return swapped_ ? __builtin_bswap32(value) : value;
}

uint64_t CaptureLosses::double_word(size_t at) const {
  uint64_t value;
  std::memcpy(&value, part_bytes_.data() + at, sizeof value);
  return swapped_ ? __builtin_bswap64(value) : value;
}

}  // namespace uroce::decode
