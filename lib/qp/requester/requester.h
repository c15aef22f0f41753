#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "port/port.h"
#include "qp/connection/connection.h"
#include "qp/connection/frame_writer.h"
#include "qp/connection/local_memory.h"
#include "qp/connection/send_window.h"
#include "qp/connection/turn.h"
#include "qp/recovery/loss_recovery.h"
#include "qp/requester/request_run.h"

namespace uroce::qp {

/// Turns send work requests into request packets, within the window, the READ limit and the fences. A
/// position in the PSN space is all it knows about a message, so sending again is the same as sending.
class Requester {
 public:
  explicit Requester(SendSide& send) : send_(send) {}

  void reset();
  /// Some of what was posted has not gone, or what has gone shall ask for an ACK: pump() is due.
  [[nodiscard]] bool has_work() const {
    return send_.window.number() != send_.connection.send_queue->published() || unasked_ ||
           send_.recovery.oldest_due();
  }
  Pumped pump(Turn& turn, uint32_t budget);
  /// How many of the datagrams that are due, up to `count_max`, go before the first for which `takes(to)` is
  /// false; `to` is a queue pair at an address of this port, or none. 1 where none is due.
  template <typename Takes>
  [[nodiscard]] uint32_t datagrams_until_refused(uint32_t count_max, Takes takes) const {
    const queue::SendQueue& queue = *send_.connection.send_queue;
    const uint32_t due = std::min(queue.published() - send_.window.number(), count_max);
    for (uint32_t i = 0; i < due; ++i)
      if (!takes(own_destination_of(send_.window.number() + i))) return i;
    return std::max(due, 1u);
  }

 private:
  using SendRequest = queue::SendRequest;
  [[nodiscard]] std::optional<QpNumber> own_destination_of(uint32_t number) const;
  /// An ACK is asked for by every packet whose PSN ends a run of this many, so that the window never stalls,
  /// and at the end of a message that the application waits for.
  static constexpr uint32_t kPacketsPerAck = 16;

  bool start(SendRequest& request, Turn& turn);
  /// The request, the current one, goes on with run_.
  [[nodiscard]] bool goes_on(const SendRequest& request) const {
    return run_.goes_on_with(request) && run_.kind == send_.connection.frame.kind() &&
           send_.connection.frame.icrc_before_psn() != 0 && send_.window.at_end() &&
           send_.connection.state() == State::kRts;
  }
  [[gnu::noinline]] uint32_t build_run(Turn& turn, uint32_t budget, uint32_t window);
  template <bool kReads>
  uint32_t build_run_of(Turn& turn, uint32_t budget, uint32_t window);
  template <bool kReads>
  const std::byte* data_of_run(const RequestRun& run, const SendRequest& request, Turn& turn);
  [[gnu::noinline]] void begin_run(const SendRequest& request, const port::TxFrame& frame);
  [[nodiscard]] queue::CompletionStatus refusal_of(const SendRequest& request, Turn& turn) const;
  [[nodiscard]] bool lacks_credit(const SendRequest& request);
  [[nodiscard]] bool may_go(const SendRequest& request);
  bool execute_current(Turn& turn, bool& more);
  bool change_key(Turn& turn);
  bool build(SendRequest& request, Turn& turn, port::TxFrame& frame);
  [[gnu::noinline]] bool build_any(SendRequest& request, Turn& turn, port::TxFrame& frame);
  template <bool kOnly>
  bool build_data(const SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_read(const SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_without_data(const SendRequest& request, Turn& turn, port::TxFrame& frame);
  void note_sent(uint32_t psns, Turn& turn);
  void ask(const SendRequest& request, wire::Operation operation, const wire::Reth& reth,
           port::TxFrame& frame, port::TxBatch& tx);
  [[nodiscard]] bool asks(const SendRequest& request, bool last) const;
  [[nodiscard]] bool is_followed(const SendRequest& request) const;
  [[gnu::cold, gnu::noinline]] bool ask_again(uint32_t window);
  [[gnu::cold, gnu::noinline]] uint32_t limited_window(Instant now);
  [[gnu::cold, gnu::noinline]] bool begin_limited();
  [[gnu::cold, gnu::noinline]] void note_limited(uint32_t window);
  [[nodiscard, gnu::cold, gnu::noinline]] uint8_t short_part_shift(uint32_t packets) const;
  [[gnu::cold, gnu::noinline]] Pumped resend_oldest(Turn& turn, uint32_t budget);
  [[nodiscard]] wire::PacketBth bth_of_data(const SendRequest& request, bool first, bool last);
  bool write_data(const SendRequest& request, wire::PacketBth bth, const Payload& payload,
                  port::TxFrame& frame, port::TxBatch& tx);
  bool write_datagram_of(const SendRequest& request, const Payload& payload, port::TxFrame& frame,
                         port::TxBatch& tx);
  void write_extensions(const FrameBuilder& frame, const SendRequest& request, const wire::Reth& reth);
  void write_rare_extensions(wire::HeaderSet set, std::byte* bth, const SendRequest& request,
                             const wire::Reth& reth);
  [[nodiscard]] wire::Headers headers_of(const SendRequest& request, const wire::Reth& reth) const;

  bool find_data(const SendRequest& request, Turn& turn, uint64_t offset, Payload& payload);
  bool may_store(const SendRequest& request, Turn& turn, uint64_t offset, uint64_t length);
  bool resolve(const SendRequest& request, Turn& turn, uint64_t offset, uint64_t length, mem::Access needed);
  bool fail_current(Turn& turn, queue::CompletionStatus status);

  SendSide& send_;
  uint32_t published_ = 0;  // requests, when this pump began
  bool asks_each_ = false;  // in this pump every packet asks for an ACK
  bool unasked_ = false;    // the newest packet did not ask for an ACK ...
  bool shall_ask_ = false;  // ... and goes once more, to do that
  RequestRun run_;          // that the newest packet belongs to
  SegmentCursor cursor_;
  uint32_t cursor_number_ = 0;  // the request that cursor_ is in
};

}  // namespace uroce::qp
