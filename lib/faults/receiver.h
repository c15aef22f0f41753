#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/counters/counters.h"
#include "base/counters/fault_counts.h"
#include "base/values/random.h"
#include "base/values/time.h"
#include "faults/delayed_frames.h"
#include "faults/rule.h"
#include "port/port.h"
#include "wire/packet.h"

namespace uroce::faults {

/// Stands between a port queue and the poller that receives from it, and does to RoCE packets what its rules
/// say. What it lets through is handed on as the port gave it; what it delays or doubles is copied. In turns
/// of the poller.
class Receiver final : public port::FrameSource {
 public:
  /// Packets that are delayed at once.
  static constexpr uint32_t kDelayedMax = 4096;

  struct Options {
    port::PortQueue& port;          // gives frames, and the buffers of copies
    const Instant& now;             // of the turn
    Counters& counters;             // of the poller
    std::span<FaultCounts> counts;  // kRulesMax of them
    uint32_t frame_bytes = 0;       // of the longest frame
    uint64_t salt = 0;              // of the poller: others with the same rules draw other numbers
  };
  explicit Receiver(const Options& options);

  /// The rules from now on, at most kRulesMax. One that was there before, by its number, goes on as it is.
  /// Without any, what is delayed is due at once.
  void set(std::span<const NumberedRule> rules);

  uint16_t receive(std::span<port::RxFrame> frames) override;
  /// Does to frames that have come in another way what receive() does to those of the port; how many are left
  /// of them. Before receive() in a turn.
  size_t filter(std::span<port::RxFrame> frames);

  /// What the responder is to say instead of performing the request in a frame of the last burst, which
  /// begins there. Such a frame has a wrong ICRC, so that it is looked at no further.
  [[nodiscard]] std::optional<OrderedRefusal> refusal_of(const std::byte* frame) const;
  /// The responder has.
  void note_refused(const OrderedRefusal& refusal);

  [[nodiscard]] bool has_delayed() const { return !delayed_.empty(); }
  /// When the first delayed packet is due; kNever: there is none.
  [[nodiscard]] Instant deadline() const { return delayed_.empty() ? kNever : delayed_.first_due(); }

 private:
  struct Active {
    NumberedRule numbered;
    size_t slot;  // of its counts
    Random random;
    Instant begin;
    Instant end;
    Instant link_free{};  // when the frames that were let through by then are, at the rule's rate
  };
  /// What becomes of a packet.
  struct Fate {
    bool lost = false;
    bool duplicated = false;
    bool reordered = false;
    bool corrupted = false;
    bool marked = false;
    std::optional<OrderedRefusal> refusal = {};
    Instant due{};
  };

  Active& begin(const NumberedRule& numbered);
  void begin_burst();
  bool pass(port::RxFrame& frame);
  [[nodiscard]] bool concerns(const Active& active) const;
  Fate draw(uint32_t length);
  void draw(Active& active, uint32_t length, Fate& fate);
  bool chance(Active& active, uint32_t of, FaultCount counted, Counter counter);
  void count(Active& active, FaultCount counted, Counter counter);
  bool hold(const port::RxFrame& frame, Instant due, const Fate& fate);
  bool give_due(port::RxFrame& frame);
  FaultCounts& counts_of(const Active& active) { return options_.counts[active.slot]; }

  const Options options_;
  std::vector<Active> rules_;
  DelayedFrames delayed_;
  Instant last_due_{};                                                // of packets that keep their order
  Random bits_;                                                       // which of them are corrupted
  wire::Packet packet_;                                               // the one that is looked at
  std::vector<std::pair<const std::byte*, OrderedRefusal>> refused_;  // of the burst
  bool burst_ended_ = true;
};

}  // namespace uroce::faults
