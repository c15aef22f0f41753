#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "perf/end_to_end/placed_region.h"
#include "port/port.h"
#include "port/specification.h"
#include "wire/layers.h"

namespace uroce::perf {

/// What a frame of bare_port is. A reported flood waits for reports of how far it has come.
enum class Kind : uint8_t { kFlood, kEndOfFlood, kPing, kAcknowledgement, kBye, kReportedFlood, kReport };

/// What is done with the payload of a frame: nothing; it is copied from and to memory; this, and it has a CRC
/// and is placed.
enum class Treatment : uint8_t { kBare, kCopied, kPlaced };

/// What follows Ethernet, IPv4 and UDP, which are those of a RoCEv2 packet between two hosts, so that what
/// carries them (a kernel, for one) has as much to do with them; then as many bytes as wanted.
struct BareHeader {
  static constexpr uint32_t kMagic = 0xBA2E0001;
  static constexpr size_t kOffset = wire::kEthernetBytes + wire::kIpv4Bytes + wire::kUdpBytes;

  uint32_t magic = kMagic;
  Kind kind{};
  Treatment treatment{};
  bool acknowledged = false;  // with an acknowledgement behind it, in the same burst
  uint8_t round = 0;          // of floods: its end is said again when a port that loses frames has lost it
  uint64_t number = 0;
};
static_assert(sizeof(BareHeader) == 16);

/// One end: a port's first queue, and memory of the size of the last-level cache that payload is copied from
/// and to. The other end's MAC address is that of the first frame that comes; before, frames go to all.
class BareEnd {
 public:
  static constexpr size_t kBurst = 32;
  static constexpr size_t kHeaderBytes = BareHeader::kOffset + sizeof(BareHeader);
  static constexpr size_t kAcknowledgementBytes = kHeaderBytes + sizeof(uint32_t);

  /// Beside the kernel both ends take what is for the address that all frames go to. Throws
  /// std::runtime_error.
  explicit BareEnd(const port::Specification& specification);

  /// Throws std::runtime_error when it does not come up.
  void wait_for_link(std::chrono::seconds limit);

  /// Frames of `bytes` with consecutive numbers from that of `first`, as many of `count` as the port takes
  /// now.
  uint16_t send(const BareHeader& first, uint32_t bytes, uint16_t count);
  /// With its acknowledgement, if it has one.
  void send_one(const BareHeader& header, uint32_t bytes);

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
  void send_acknowledged(const BareHeader& header, uint32_t bytes);
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
