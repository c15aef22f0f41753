#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "apps/decode/inspected.h"
#include "apps/decode/message_checks.h"
#include "apps/decode/sent_packets.h"

namespace uroce::decode {

/// How packets of one direction of a connection came, counted.
struct FlowCounts {
  uint64_t packets = 0;
  uint64_t bytes = 0;            // of frames
  uint64_t retransmissions = 0;  // sent again by the requester
  uint64_t duplicates = 0;       // the same packet twice, by the network
  uint64_t late = 0;     // behind others, and not seen before: overtaken, or its first copy was not captured
  uint64_t missing = 0;  // PSNs that had not been seen when others behind them were
  uint64_t sequence_naks = 0;
  uint64_t rnr_naks = 0;
  uint64_t fatal_naks = 0;
};

/// Follows the requests of one direction of RC or XRC by what was captured of them, and what answers them.
/// What was not captured is unknown, and nothing is said of it. The path MTU is 0 while it is not known.
class RequesterTrack {
 public:
  /// What the connection manager said; nothing of before counts.
  void expect(Psn psn) { *this = RequesterTrack(psn, not_captured()); }
  RequesterTrack() = default;

  /// `note`: how a packet came that is not simply the next one.
  void receive(const Inspected& packet, uint32_t& mtu, FlowCounts& counts, std::string& note,
               Findings& findings);

  /// A response of the other direction; `counts` and `findings` are its.
  void receive_response(const Inspected& packet, uint32_t& mtu, FlowCounts& counts, Findings& findings);

  /// Whether the response can be to a request that was seen.
  [[nodiscard]] bool explains(const Inspected& response, uint32_t mtu);

  /// How many PSNs were acknowledged and never captured: the responder received what the capture lacks.
  [[nodiscard]] uint64_t not_captured() const;
  /// Whether a request was captured.
  [[nodiscard]] bool has_requests() const { return begun_; }

 private:
  /// What a READ asks for: all of it, or, again, a part.
  struct Asked {
    Psn psn;
    uint64_t address = 0;
    uint32_t bytes = 0;
  };
  struct Read {
    Asked all;
    MemoryKey key;
    std::vector<Asked> again;
  };
  /// An ACK of what was not seen to be sent. Its request may only be missing in the capture. It was not
  /// sent if numbers up to it are first seen afterwards, and the responder acknowledges one of them alone: a
  /// duplicate of what had arrived would be acknowledged with the newest number of a SEND or WRITE, which is
  /// the one that this ACK names.
  struct Early {
    uint64_t number = 0;
    Psn psn;
    std::optional<Psn> sent_since;
  };
  /// PSNs that were not captured, from `first` to before `end`.
  struct Gap {
    Psn first;
    Psn end;
  };
  struct ReceiverNotReady {
    Psn psn;
    int64_t time_ns = 0;
    uint8_t timer = 0;
  };
  /// Packets that are farther away than that from the newest are of another life of the queue pair.
  static constexpr int32_t kDistanceMax = 1 << 20;
  static constexpr size_t kReadsMax = 256;
  static constexpr size_t kAsksMax = 32;
  static constexpr size_t kGapsMax = 256;

  RequesterTrack(std::optional<Psn> agreed, uint64_t not_captured)
      : agreed_(agreed), not_captured_(not_captured) {}

  void begin(const Inspected& packet, uint32_t mtu, Findings& findings);
  void advance(const Inspected& packet, uint32_t mtu);
  void record(const Inspected& packet);
  void receive_new(const Inspected& packet, uint32_t mtu, FlowCounts& counts, Findings& findings);
  void receive_old(const Inspected& packet, uint32_t mtu, FlowCounts& counts, std::string& note,
                   Findings& findings);
  bool receive_in_read(const Inspected& packet, uint32_t mtu, FlowCounts& counts, std::string& note,
                       Findings& findings);
  void receive_again(const Inspected& packet, SentPacket& sent, FlowCounts& counts, std::string& note,
                     Findings& findings);
  [[nodiscard]] bool is_duplicate(const Inspected& packet, const SentPacket& sent);
  void note_sent(Psn psn);
  void add_gap(Psn first, Psn end);
  void close_gap(Psn psn, Psn end);
  void acknowledge(const Inspected& response);
  [[nodiscard]] uint64_t acknowledged_in(const Gap& gap) const;
  void check_early(Psn acknowledged, Findings& findings);
  void check_wait(const Inspected& packet, Findings& findings);

  void receive_acknowledge(const Inspected& packet, uint32_t mtu, FlowCounts& counts, Findings& findings);
  void check_name(const Inspected& acknowledge, uint32_t mtu, Findings& findings);
  void receive_read_response(const Inspected& packet, const Read& read, uint32_t mtu, Findings& findings);
  void check_kind(const Inspected& packet, uint32_t mtu, Findings& findings);
  /// The READ in whose responses' numbers the PSN lies; null: none that is remembered.
  [[nodiscard]] Read* read_at(Psn psn, uint32_t mtu);

  SentPackets sent_;
  std::deque<Read> reads_;  // newest last
  WrittenMessage message_;
  std::optional<Psn> agreed_;
  bool begun_ = false;
  bool next_is_known_ =
      true;    // else the newest is a READ, whose responses cannot be counted without a path MTU
  Psn first_;  // the oldest since it began
  Psn next_;   // behind the newest
  std::optional<Early> early_;
  std::optional<ReceiverNotReady> not_ready_;
  std::optional<Psn> refused_;       // by a NAK that ends the connection
  std::optional<Psn> asked_for_;     // again, by a NAK
  std::deque<Gap> gaps_;             // by PSN
  uint64_t not_captured_ = 0;        // of gaps that are not remembered
  std::optional<Psn> acknowledged_;  // the newest
};

}  // namespace uroce::decode
