#pragma once

#include <cstdint>

#include "port/port.h"
#include "qp/connection.h"
#include "qp/frame_writer.h"
#include "qp/local_memory.h"
#include "qp/retransmission.h"
#include "qp/send_window.h"
#include "qp/turn.h"

namespace uroce::qp {

/// Turns send work requests into request packets, within the window, the READ limit and the fences. A
/// position in the PSN space is all it knows about a message, so sending again is the same as sending.
class Requester {
 public:
  Requester(Connection& connection, SendWindow& window, Retransmission& retransmission)
      : connection_(connection),
        window_(window),
        retransmission_(retransmission),
        longest_(connection.connected ? kMessageBytesMax : connection.options.datagram_mtu) {}

  void reset();
  Pumped pump(Turn& turn, uint32_t budget);

 private:
  bool start(queue::SendRequest& request, Turn& turn);
  [[nodiscard]] queue::CompletionStatus refusal_of(const queue::SendRequest& request, Turn& turn) const;
  [[nodiscard]] bool lacks_credit(const queue::SendRequest& request);
  [[nodiscard]] bool may_go(const queue::SendRequest& request, bool without_credit);
  bool execute_current(Turn& turn, Pumped& pumped);
  bool change_key(Turn& turn);
  [[nodiscard]] wire::Headers next_headers(wire::Operation operation) const;
  void begin_headers(wire::Headers& headers, wire::Operation operation) const;
  bool build(queue::SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_without_data(queue::SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_read(const queue::SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_atomic(queue::SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool build_flush(const queue::SendRequest& request, port::TxFrame& frame);
  bool build_data(const queue::SendRequest& request, Turn& turn, port::TxFrame& frame);
  bool write(port::TxFrame& frame, const wire::Headers& headers, const Payload& payload);
  bool resolve(const queue::SendRequest& request, Turn& turn, uint64_t offset, uint64_t length,
               mem::Access needed);
  bool fail_current(Turn& turn, queue::CompletionStatus status);

  Connection& connection_;
  SendWindow& window_;
  Retransmission& retransmission_;
  const uint32_t longest_;  // message
  SegmentCursor cursor_;
  uint32_t cursor_number_ = 0;  // the request that cursor_ is in
  ResolvedRange range_;
  wire::Headers data_headers_;  // of SENDs and WRITEs: what their opcode does not name is left as it was
};

}  // namespace uroce::qp
