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
  void expect(Psn psn) { *this = RequesterTrack(psn); }
  RequesterTrack() = default;

  /// `note`: how a packet came that is not simply the next one.
  void receive(const Inspected& packet, uint32_t& mtu, FlowCounts& counts, std::string& note,
               Findings& findings);

  /// A response of the other direction; `counts` and `findings` are its.
  void receive_response(const Inspected& packet, uint32_t& mtu, FlowCounts& counts, Findings& findings);

  /// Whether the response can be to a request that was seen.
  [[nodiscard]] bool explains(const Inspected& response, uint32_t mtu);

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
  /// A response to what was not seen to be sent. Its request may only be missing in the capture. It was not
  /// sent if numbers up to it are first seen afterwards, and the responder acknowledges one of them alone: a
  /// duplicate of what had arrived would be acknowledged with the newest number.
  struct Early {
    uint64_t number = 0;
    Psn psn;
    const char* name = "";
    std::optional<Psn> sent_since;
  };
  struct ReceiverNotReady {
    Psn psn;
    int64_t time_ns = 0;
    uint8_t timer = 0;
  };
  static constexpr size_t kReadsMax = 256;
  static constexpr size_t kAsksMax = 32;

  explicit RequesterTrack(Psn agreed) : agreed_(agreed) {}

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
  void check_early(Psn acknowledged, Findings& findings);
  void check_wait(const Inspected& packet, Findings& findings);

  void receive_acknowledge(const Inspected& packet, FlowCounts& counts, Findings& findings);
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
  std::optional<Psn> refused_;    // by a NAK that ends the connection
  std::optional<Psn> asked_for_;  // again, by a NAK
};

}  // namespace uroce::decode
