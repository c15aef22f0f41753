#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "base/threads/versioned_words.h"

// Captured frames on their way from a poller to another process: memory that their poller alone writes, and
// never waits: a reader that is late has lost frames, and sees how many. README.md.
namespace uroce::capture {

enum class RecordKind : uint8_t {
  kIn = 1,      // a received frame
  kOut = 2,     // a sent one
  kReason = 3,  // why the frame at position `about` went no further: Counter `reason`
};

/// What is known of a frame besides its bytes.
struct Record {
  int64_t time_ns = 0;  // since 1970
  uint64_t about = 0;
  uint32_t bytes = 0;     // of the frame
  uint32_t captured = 0;  // of these, behind the record
  RecordKind kind = RecordKind::kIn;
  bool has_icrc = true;      // false: it stays on the host, and none was computed
  bool has_context = false;  // of the queue pair:
  uint8_t state = 0;         // as enum ibv_qp_state
  uint16_t reason = 0;
  uint16_t candidates = 0;    // kReason: one of so many frames of its burst, of which this is one
  uint32_t queue_pair = 0;    // ours
  uint32_t due_request = 0;   // the PSN that it expects of its peer
  uint32_t due_response = 0;  // the oldest PSN that its peer has not answered
};
static_assert(sizeof(Record) == 48);

inline constexpr uint64_t kRingMagic = 0x3147'4E49'4352'5555;  // "UURCING1"
inline constexpr uint32_t kPollersMax = 64;
inline constexpr uint32_t kSlotsMax = 1u << 17;
inline constexpr uint32_t kSlotBytesMax = 1u << 14;
inline constexpr size_t kRingBytesMax = size_t{1} << 30;

/// The first page of the memory, checked when it is mapped and not looked at again; then a line for each
/// poller.
struct RingPreamble {
  uint64_t magic = kRingMagic;
  uint32_t pollers = 0;
  uint32_t slots = 0;       // of each; a power of two, 2 at least: one is being written
  uint32_t slot_bytes = 0;  // with its head
};
struct alignas(64) RingHead {
  std::atomic<uint64_t> written;  // frames that can be read, since the beginning
  // NAKs, and what ends a request with an error; their frames can be read before they count.
  std::atomic<uint64_t> errors;
};
struct SlotHead {
  Version version;  // the frame's position plus one; 0: it is being written
  uint64_t unused;
  Record record;
};
static_assert(sizeof(SlotHead) == 64);

class RingLayout {
 public:
  static constexpr size_t kHeadBytes = 4096 + kPollersMax * sizeof(RingHead);

  explicit RingLayout(const RingPreamble& preamble) : preamble_(preamble) {}
  [[nodiscard]] size_t bytes() const {
    const size_t all = kHeadBytes + size_t{preamble_.pollers} * preamble_.slots * preamble_.slot_bytes;
    return (all + 4095) / 4096 * 4096;
  }
  [[nodiscard]] bool sound() const {
    const auto [magic, pollers, slots, slot_bytes] = preamble_;
    return magic == kRingMagic && pollers > 0 && pollers <= kPollersMax && slots > 1 && slots <= kSlotsMax &&
           (slots & (slots - 1)) == 0 && slot_bytes >= sizeof(SlotHead) && slot_bytes <= kSlotBytesMax &&
           slot_bytes % 64 == 0 && size_t{pollers} * slots * slot_bytes <= kRingBytesMax;
  }
  [[nodiscard]] const RingPreamble& preamble() const { return preamble_; }
  template <typename Byte>
  [[nodiscard]] auto& head(Byte* memory, uint32_t poller) const {
    using Head = std::conditional_t<std::is_const_v<Byte>, const RingHead, RingHead>;
    return *reinterpret_cast<Head*>(memory + 4096 + poller * sizeof(RingHead));
  }
  template <typename Byte>
  [[nodiscard]] Byte* slot(Byte* memory, uint32_t poller, uint64_t position) const {
    const uint64_t index = uint64_t{poller} * preamble_.slots + (position & (preamble_.slots - 1));
    return memory + kHeadBytes + index * preamble_.slot_bytes;
  }

 private:
  const RingPreamble preamble_;
};

/// Writes the ring of one poller. `memory` has the layout's size and is zeroed.
class RingWriter {
 public:
  RingWriter(std::byte* memory, const RingLayout& layout, uint32_t poller)
      : memory_(memory), layout_(layout), poller_(poller) {}

  [[nodiscard]] uint64_t position() const { return next_; }
  /// What is written from here on is not there yet.
  void back_to(uint64_t position) { next_ = position; }
  /// Writes as much of the frame as fits. Not to be read before publish().
  void put(Record record, std::span<const std::byte> frame) {
    std::byte* const at = layout_.slot(memory_, poller_, next_);
    auto& head = *reinterpret_cast<SlotHead*>(at);
    head.version.begin(0);
    const size_t room = layout_.preamble().slot_bytes - sizeof(SlotHead);
    record.captured = static_cast<uint32_t>(std::min(frame.size(), room));
    store_words(reinterpret_cast<std::byte*>(&head.record), reinterpret_cast<const std::byte*>(&record),
                sizeof record);
    store_words(at + sizeof(SlotHead), frame.data(), record.captured);
    head.version.end(++next_);
  }
  void publish() {
    layout_.head(memory_, poller_)
        .written.store(next_, std::memory_order_release);  // pairs with RingReader::written()
  }
  void count_errors(uint64_t more) {
    auto& errors = layout_.head(memory_, poller_).errors;
    // relaxed: the poller alone writes it. release: behind the frames; pairs with RingReader::errors()
    errors.store(errors.load(std::memory_order_relaxed) + more, std::memory_order_release);
  }

 private:
  std::byte* const memory_;
  const RingLayout layout_;
  const uint32_t poller_;
  uint64_t next_ = 0;
};

/// Reads it, in another process that cannot be trusted to keep to the format.
class RingReader {
 public:
  RingReader(const std::byte* memory, const RingLayout& layout, uint32_t poller)
      : memory_(memory), layout_(layout), poller_(poller) {}

  /// The next frame: its record, and its bytes in `bytes`. Null: there is none now.
  std::optional<Record> read(std::span<std::byte> bytes) {
    const uint64_t written = layout_.head(memory_, poller_).written.load(std::memory_order_acquire);
    const uint64_t slots = layout_.preamble().slots;
    while (next_ < written) {
      // The slot behind the newest may be being written.
      if (written - next_ >= slots) {
        lost_ += written - next_ - slots + 1;
        next_ = written - slots + 1;
      }
      const uint64_t position = next_++;
      if (const auto record = read_at(position, bytes)) return record;
      ++lost_;
    }
    return std::nullopt;
  }
  /// The position of what read() returned last.
  [[nodiscard]] uint64_t position() const { return next_ - 1; }
  [[nodiscard]] uint64_t lost() const { return lost_; }
  [[nodiscard]] uint64_t errors() const {
    // pairs with RingWriter::count_errors()
    return layout_.head(memory_, poller_).errors.load(std::memory_order_acquire);
  }

 private:
  std::optional<Record> read_at(uint64_t position, std::span<std::byte> bytes) const {
    const std::byte* const at = layout_.slot(memory_, poller_, position);
    const auto& head = *reinterpret_cast<const SlotHead*>(at);
    if (head.version.load() != position + 1) return std::nullopt;
    Record record;
    load_words(reinterpret_cast<std::byte*>(&record), reinterpret_cast<const std::byte*>(&head.record),
               sizeof record);
    const size_t room = std::min<size_t>(bytes.size(), layout_.preamble().slot_bytes - sizeof(SlotHead));
    record.captured = std::min<uint32_t>(record.captured, static_cast<uint32_t>(room));
    load_words(bytes.data(), at + sizeof(SlotHead), record.captured);
    if (!head.version.still(position + 1)) return std::nullopt;
    record.captured = std::min(record.captured, record.bytes);
    return record;
  }

  const std::byte* const memory_;
  const RingLayout layout_;
  const uint32_t poller_;
  uint64_t next_ = 0;
  uint64_t lost_ = 0;
};

}  // namespace uroce::capture
