#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/counters/fault_counts.h"
#include "base/tables/block_code.h"
#include "base/threads/claim_line.h"
#include "base/values/identifiers.h"

// The memory by which a process gives frames to others of its host. One process writes it; it is a sealed
// memfd that all others can only map to read. So each process reads what it cannot trust: nothing here is
// read twice, and every index and length is bounded by the reader's own constants (channel.h).
//
//   Preamble, Usage, Grant | Bell | Consumed[channels] | FaultCounts[kFaultsMax] | ConnectionRow[connections]
//   | FrameDescriptor[channels][kRingFrames] | frames
namespace uroce::host {

inline constexpr uint64_t kMemoryMagic = 0x334D'4865'636F'7275;  // "uroceHM3"
inline constexpr size_t kFaultsMax = 16;                         // of which counts are kept
inline constexpr uint32_t kRingFrames = 512;                     // descriptors of a channel
/// A frame of RDMA's path MTU 4096 with all of its headers, on a link with an MTU of 4200.
inline constexpr uint32_t kFrameBytes = 4352;
/// An Ethernet header, at least.
inline constexpr uint32_t kFrameBytesMin = 14;

/// Connections of rdma_cm that a program may have, and one: its communication ids have 15 bits for
/// them.
inline constexpr uint32_t kConnectionRows = 1u << 15;

/// How much there is of what: the same for all memories of one kind.
struct MemoryShape {
  uint32_t channels = 1;
  uint32_t frames = 1;  // at most 2^16
  uint32_t connections = 0;

  [[nodiscard]] bool operator==(const MemoryShape&) const = default;
};
/// A program's: a channel for the service and for each program that it talks to.
inline constexpr MemoryShape kProgramMemory{.channels = 512, .frames = 2048, .connections = kConnectionRows};
/// The service's, for one program that alone maps it.
inline constexpr MemoryShape kServiceMemory{.channels = 1, .frames = 1024};

/// Checked when a memory is mapped, and never looked at again.
struct Preamble {
  uint64_t magic = 0;
  uint32_t channels = 0;
  uint32_t frames = 0;
  uint32_t ring_frames = 0;
  uint32_t frame_bytes = 0;
};

/// What the process says of itself. No reader depends on it, or believes more of it than can be.
struct Usage {
  std::atomic<uint32_t> queue_pairs;   // that there are, for `uroce status`
  std::atomic<uint32_t> connections;   // rows beyond these have never been used
  std::atomic<uint64_t> port_dropped;  // frames that found no room at another program, or at the service
};

/// In the service's memory for a program: the queue pair numbers that it has. The program shows the memory to
/// the service that comes after this one, which believes it because no other user can make or change memory
/// like this.
struct Grant {
  uint32_t first;
  uint32_t count;
  uint32_t user;
  std::atomic<uint32_t> valid;  // 0: the program has ended as far as the service knew
};

/// Whether the process that writes the memory sleeps until it is woken. A futex that readers wake.
struct Bell {
  static constexpr uint32_t kAsleep = 1;
  std::atomic<uint32_t> word;
};

/// A connection of rdma_cm, for the service: it disconnects those that a program leaves behind when it ends.
/// Fields as in the messages of the communication manager and in the packets that carry them.
struct ConnectionRow {
  std::atomic<uint32_t> local;  // communication id; 0: no connection. Written last
  uint32_t remote;              // the peer's
  uint32_t remote_qp;
  uint32_t flow_label;
  uint8_t traffic_class;
  uint8_t hop_limit;
  uint8_t service_level;
  MacAddress link;  // the Ethernet address that the peer's last message came from
  Gid local_address;
  Gid remote_address;
};

/// How many frames of the other end's ring this end has taken, modulo 2^32.
struct Consumed {
  std::atomic<uint32_t> count;
};

/// One frame in a ring. A reader knows by `sequence` that the descriptor at a position has been written: it
/// is the position plus one, modulo 2^21, and those of one place in the ring are kRingFrames apart.
struct FrameDescriptor {
  uint16_t frame = 0;     // which of the frames of the same memory
  uint16_t length = 0;    // of the frame, in bytes
  bool has_icrc = true;   // false: the frame has room for an ICRC, which was not computed
  BlockCode sender = {};  // the program of this host that sent it; only the service's word counts
  uint32_t sequence = 0;

  static constexpr uint32_t kLengthBits = 13;
  static constexpr uint32_t kLengthMask = (1u << kLengthBits) - 1;
  static constexpr uint32_t kSenderMask = (1u << BlockCode::kBits) - 1;
  static constexpr uint32_t kSequenceMask = (1u << 21) - 1;

  [[nodiscard]] static constexpr uint32_t sequence_at(uint32_t position) {
    return (position + 1) & kSequenceMask;
  }
  [[nodiscard]] constexpr uint64_t pack() const {
    return uint64_t{sequence & kSequenceMask} << kSequenceShift |
           uint64_t{sender.value & kSenderMask} << kSenderShift | uint64_t{has_icrc} << kIcrcShift |
           uint64_t{length & kLengthMask} << kLengthShift | frame;
  }
  [[nodiscard]] static constexpr FrameDescriptor unpack(uint64_t word) {
    return {.frame = static_cast<uint16_t>(word),
            .length = static_cast<uint16_t>(word >> kLengthShift & kLengthMask),
            .has_icrc = (word >> kIcrcShift & 1) != 0,
            .sender = {static_cast<uint16_t>(word >> kSenderShift & kSenderMask)},
            .sequence = static_cast<uint32_t>(word >> kSequenceShift)};
  }

 private:
  static constexpr uint32_t kLengthShift = 16;
  static constexpr uint32_t kIcrcShift = kLengthShift + kLengthBits;
  static constexpr uint32_t kSenderShift = kIcrcShift + 1;
  static constexpr uint32_t kSequenceShift = kSenderShift + BlockCode::kBits;
  static_assert(kSequenceShift + 21 == 64 && kRingFrames < kSequenceMask);
};

/// Where the parts of a memory are.
class MemoryLayout {
 public:
  using Ring = std::atomic<uint64_t>;  // a packed FrameDescriptor

  constexpr explicit MemoryLayout(MemoryShape shape) : shape_(shape) {}

  [[nodiscard]] constexpr size_t bytes() const {
    constexpr size_t kPage = 4096;
    return (frames_offset() + size_t{shape_.frames} * kFrameBytes + kPage - 1) / kPage * kPage;
  }
  [[nodiscard]] constexpr MemoryShape shape() const { return shape_; }

  template <typename Byte>
  [[nodiscard]] auto& usage(Byte* memory) const {
    return at<Usage>(memory + kUsageOffset);
  }
  template <typename Byte>
  [[nodiscard]] auto& grant(Byte* memory) const {
    return at<Grant>(memory + kGrantOffset);
  }
  template <typename Byte>
  [[nodiscard]] auto& bell(Byte* memory) const {
    return at<Bell>(memory + kCacheLine);
  }
  template <typename Byte>
  [[nodiscard]] auto& consumed(Byte* memory, uint32_t channel) const {
    return at<Consumed>(memory + (2 + size_t{channel}) * kCacheLine);
  }
  /// The first of kFaultsMax; their process writes them for `uroce fault list`.
  template <typename Byte>
  [[nodiscard]] auto* fault_counts(Byte* memory) const {
    return &at<FaultCounts>(memory + faults_offset());
  }
  /// The first of shape().connections.
  template <typename Byte>
  [[nodiscard]] auto* connections(Byte* memory) const {
    return &at<ConnectionRow>(memory + connections_offset());
  }
  /// The first of kRingFrames.
  template <typename Byte>
  [[nodiscard]] auto* ring(Byte* memory, uint32_t channel) const {
    return &at<Ring>(memory + rings_offset() + size_t{channel} * kRingFrames * sizeof(Ring));
  }
  template <typename Byte>
  [[nodiscard]] Byte* frame(Byte* memory, uint32_t index) const {
    return memory + frames_offset() + size_t{index} * kFrameBytes;
  }

 private:
  static constexpr size_t kUsageOffset = kCacheLine / 2;
  static constexpr size_t kGrantOffset = kUsageOffset + kCacheLine / 4;
  static_assert(sizeof(Preamble) <= kUsageOffset && kUsageOffset + sizeof(Usage) <= kGrantOffset &&
                kGrantOffset + sizeof(Grant) <= kCacheLine);

  /// A reference that is const if `Byte` is.
  template <typename T, typename Byte>
  [[nodiscard]] static auto& at(Byte* place) {
    if constexpr (std::is_const_v<Byte>)
      return *reinterpret_cast<const T*>(place);
    else
      return *reinterpret_cast<T*>(place);
  }
  [[nodiscard]] constexpr size_t faults_offset() const { return (2 + size_t{shape_.channels}) * kCacheLine; }
  [[nodiscard]] constexpr size_t connections_offset() const {
    constexpr size_t kBytes = (kFaultsMax * sizeof(FaultCounts) + kCacheLine - 1) / kCacheLine * kCacheLine;
    return faults_offset() + kBytes;
  }
  [[nodiscard]] constexpr size_t rings_offset() const {
    const size_t bytes = size_t{shape_.connections} * sizeof(ConnectionRow);
    return connections_offset() + (bytes + kCacheLine - 1) / kCacheLine * kCacheLine;
  }
  [[nodiscard]] constexpr size_t frames_offset() const {
    return rings_offset() + size_t{shape_.channels} * kRingFrames * sizeof(Ring);
  }

  const MemoryShape shape_;
};

static_assert(sizeof(Usage) == 16 && sizeof(ConnectionRow) == 60 && sizeof(Bell) == 4 &&
              sizeof(Consumed) == 4);
static_assert(kFrameBytes % kCacheLine == 0 && kFrameBytes <= FrameDescriptor::kLengthMask);
static_assert(std::atomic<uint64_t>::is_always_lock_free && std::atomic<uint32_t>::is_always_lock_free);

}  // namespace uroce::host
