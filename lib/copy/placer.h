#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace uroce::copy {

/// How bytes are moved. All kinds obey the same visibility rules (below); a configuration may force one.
enum class Kind : uint8_t {
  kAuto,         // non-temporal for cold destinations, ordinary otherwise
  kOrdinary,     // memcpy
  kString,       // rep movsb
  kNonTemporal,  // streaming stores, widest the CPU has
};

/// Puts the payloads of one burst into registered memory so that a CPU watching that memory sees what RDMA
/// hardware would show it: the last byte of a message after all its other bytes, and messages in PSN order.
///
/// Bodies are copied at once, in any order of bytes, possibly with non-temporal stores. The tail of a message
/// (its last bytes) waits until commit(), which puts one sfence after the bodies (if any was non-temporal)
/// and then stores the tails in order, each with ordinary stores in ascending order, the final store inside
/// one cache line. Sources must stay readable until commit(). commit() comes before any CQE is published, any
/// ACK leaves, and any READ of the same memory; placements that overlap an uncommitted one cause it by
/// themselves.
class Placer {
 public:
  static constexpr size_t kTailsMax = 64;
  static constexpr size_t kTailBytes = 64;  // most bytes of a tail

  explicit Placer(Kind kind) : kind_(kind) {}

  /// Bytes of a message that are not its end.
  void place(std::byte* to, const std::byte* from, size_t length, bool cold);
  /// The final bytes of a message.
  void place_last(std::byte* to, const std::byte* from, size_t length, bool cold);

  void commit();
  [[nodiscard]] bool dirty() const { return tails_ > 0 || streamed_; }

 private:
  struct Tail {
    std::byte* to;
    const std::byte* from;
    uint32_t length;
  };
  void body(std::byte* to, const std::byte* from, size_t length, bool cold);

  Kind kind_;
  bool streamed_ = false;
  size_t tails_ = 0;
  std::array<Tail, kTailsMax> tail_;
  // Hull of all uncommitted destinations, for the overlap test.
  std::byte* lowest_ = nullptr;
  std::byte* highest_ = nullptr;
};

}  // namespace uroce::copy
