#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/identifiers.h"
#include "perf/end_to_end/placed_region.h"
#include "port/port.h"
#include "wire/layers.h"

namespace uroce::perf {

/// What a frame of bare_port is: of those in a flood nothing is done with `bare` ones, `copied` and `placed`
/// ones are emptied into memory.
enum class Kind : uint8_t { kFlood, kFloodCopied, kFloodPlaced, kEndOfFlood, kPing, kBye };

constexpr bool is_flood(Kind kind) {
  return kind == Kind::kFlood || kind == Kind::kFloodCopied || kind == Kind::kFloodPlaced;
}

/// Behind Ethernet, IPv4 and UDP, which are those of a RoCEv2 packet between two hosts, so that who carries
/// them (a kernel, for one) has as much to do with them; then as many bytes as wanted.
struct BareHeader {
  static constexpr uint32_t kMagic = 0xBA2E0001;
  static constexpr size_t kOffset = wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes;

  uint32_t magic = kMagic;
  Kind kind{};
  uint8_t round = 0;  // of floods: its end is said again when a port that loses frames has lost it
  uint16_t zero = 0;
  uint64_t number = 0;
};
static_assert(sizeof(BareHeader) == 16);

/// One end: a port's first queue, and memory of the size of the last-level cache that payload is copied from
/// and to. The other end's MAC address is that of the first frame that comes; before, frames go to all.
class BareEnd {
 public:
  static constexpr size_t kBurst = 32;
  static constexpr size_t kHeaderBytes = BareHeader::kOffset + sizeof(BareHeader);

  /// Throws std::runtime_error.
  explicit BareEnd(const std::string& devargs);

  /// Throws std::runtime_error when it does not come up.
  void wait_for_link(std::chrono::seconds limit);

  /// Frames of `bytes` with consecutive numbers, as many of `count` as the port takes now.
  uint16_t send(Kind kind, uint64_t number, uint32_t bytes, uint16_t count, uint8_t round = 0);
  void send_one(Kind kind, uint64_t number, uint32_t bytes, uint8_t round = 0);

  /// Hands every received frame of ours to `take` as (header, bytes).
  template <typename Take>
  size_t receive(Take take) {
    std::array<port::RxFrame, kBurst> frames;
    const uint16_t count = queue_->receive(frames);
    for (uint16_t i = 0; i < count; ++i) {
      BareHeader header;
      if (frames[i].length < kHeaderBytes) continue;
      std::memcpy(&header, frames[i].data + BareHeader::kOffset, sizeof(header));
      if (header.magic != BareHeader::kMagic) continue;
      if (!greeted_) [[unlikely]]
        greet(frames[i]);
      store(header, frames[i]);
      take(header, frames[i].length);
    }
    region_.commit();
    queue_->release({frames.data(), count});
    return count;
  }

 private:
  void make_headers(std::byte* to, uint32_t bytes) const;
  void fill(port::TxFrame& frame, const BareHeader& header, uint32_t bytes);
  void greet(const port::RxFrame& frame);
  void store(const BareHeader& header, const port::RxFrame& frame);
  void place(const BareHeader& header, const port::RxFrame& frame);

  // 128 slots, as `uroce perf` has messages outstanding.
  static constexpr size_t kSlots = 128;
  static constexpr size_t kMemoryBytes = kSlots * 16384;
  std::byte* slot(uint64_t number, uint32_t bytes);

  std::unique_ptr<port::Port> port_;
  port::PortQueue* queue_;
  MacAddress other_;
  bool greeted_ = false;  // other_ is known
  std::vector<std::byte> memory_;
  PlacedRegion region_;
};

}  // namespace uroce::perf
