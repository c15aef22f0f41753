#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace uroce::dump {

/// Blocks of a pcapng file, one behind the other (draft-ietf-opsawg-pcapng). Time stamps are in nanoseconds.
class PcapngBlocks {
 public:
  enum class Direction : uint8_t { kUnknown = 0, kIn = 1, kOut = 2 };
  struct Packet {
    uint32_t interface = 0;
    int64_t time_ns = 0;  // since 1970
    std::span<const std::byte> bytes;
    uint32_t bytes_of_frame = 0;
    Direction direction = Direction::kUnknown;
    uint64_t lost_before = 0;  // frames of the interface, since the one before
    std::string_view comment;
  };

  /// The first one.
  void add_section(std::string_view application);
  /// Ethernet. Interfaces count from 0.
  void add_interface(std::string_view name, std::string_view description, uint32_t snap_bytes);
  void add_packet(const Packet& packet);
  void add_statistics(uint32_t interface, int64_t time_ns, uint64_t received, uint64_t lost);

  [[nodiscard]] std::span<const std::byte> bytes() const { return bytes_; }
  void clear() { bytes_.clear(); }

 private:
  void begin(uint32_t type);
  void end();
  void add_option(uint16_t code, std::span<const std::byte> value);
  void add_option(uint16_t code, std::string_view value);
  template <typename T>
  void add_number(T value);
  void pad();

  std::vector<std::byte> bytes_;
  size_t begin_ = 0;
};

/// How many of the bytes, which begin with a block, are whole blocks.
size_t whole_blocks(std::span<const std::byte> bytes, size_t bytes_max);

}  // namespace uroce::dump
