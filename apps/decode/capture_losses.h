#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

namespace uroce::decode {

/// What a pcapng file says of the frames that it lacks: at a packet, those lost since the one before
/// (epb_dropcount), and in the statistics of an interface, all of them (isb_ifdrop, isb_osdrop). libpcap
/// reads neither, so the bytes pass here on their way to it. Files of pcap say nothing.
class CaptureLosses {
 public:
  /// The next bytes of the file, in any portions.
  void pass(std::span<const std::byte> bytes);

  /// How many frames were lost before the frame with this number, from 1. The numbers of the calls ascend.
  uint64_t before(uint64_t frame);
  /// All frames that the file says it lacks, as far as it was read.
  [[nodiscard]] uint64_t total() const;

 private:
  enum class Part : uint8_t {
    kHead,    // of a block: type, length and the first word of its body
    kPacket,  // the rest of an Enhanced Packet Block's fixed part
    kData,    // passed over
    kPacketOptions,
    kStatistics,
    kUnknown,  // no pcapng, or broken, of which libpcap complains
  };
  struct Interface {
    uint64_t at_packets = 0;
    uint64_t in_statistics = 0;
  };
  struct Lost {
    uint64_t frame = 0;
    uint64_t frames = 0;
  };

  /// `part` is complete, or, of what is passed over, its bytes are.
  void end_of_part();
  void begin_block();
  void begin_section(uint32_t byte_order, uint32_t length);
  void begin_packet();
  void next(Part part, uint64_t bytes);
  template <typename Visit>
  void for_options(size_t at, Visit visit) const;
  Interface* interface();
  void add_lost(uint64_t frames);

  [[nodiscard]] uint16_t half(size_t at) const;
  [[nodiscard]] uint32_t word(size_t at) const;
  [[nodiscard]] uint64_t double_word(size_t at) const;

  Part part_ = Part::kHead;
  uint64_t left_ = kHeadBytes;  // of the part
  std::vector<std::byte> part_bytes_;
  bool in_section_ = false;
  bool swapped_ = false;          // the file's byte order is not the CPU's
  uint32_t block_left_ = 0;       // behind the head
  uint32_t options_bytes_ = 0;    // of a packet, behind its data
  uint32_t interface_ = 0;        // of the block
  size_t section_interface_ = 0;  // the first one of the section
  uint64_t frames_ = 0;
  std::vector<Interface> interfaces_;
  std::deque<Lost> lost_;

  static constexpr uint32_t kHeadBytes = 12;
};

}  // namespace uroce::decode
