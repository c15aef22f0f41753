// The way of most messages: many of one packet each, alike, one behind the other. What build() decides for
// each is decided once for all of them, and what it keeps in memory is in registers.
//
// Decision: messages of one packet have paths of their own: runs here, constants in the responder, a loop in
// the completer. Cost: more code (`perf/run --only instructions` shows what it saves); `unit / qp` compares
// each packet with a model without runs.
#include <algorithm>

#include "base/values/contract.h"
#include "qp/requester/requester.h"

namespace uroce::qp {

/// After the request's packet, the newest one, was built in `frame`: a run begins with it.
void Requester::begin_run(const SendRequest& request, const port::TxFrame& frame) {
  UROCE_ASSERT(RequestRun::may_begin(request));
  if (!send_.connection.connected || send_.connection.type == Type::kXrcSend) return;
  const wire::FrameTemplate& path = send_.connection.frame;
  const wire::OpcodeRow& row = wire::opcode_row({static_cast<uint8_t>(path.kind())});
  run_ = {.flags = RequestRun::flags_of(request),
          .length = request.length,
          .segments = request.segments,
          .operation = request.operation,
          .kind = path.kind(),
          .shape = FrameRun::Shape::of(path, row, is_read(request.operation) ? 0 : request.length)};
  UROCE_ASSERT(run_.shape.frame_bytes == frame.length);
}

/// Builds packets as long as there are requests that go on with the run and may go at once; how many. All
/// else is left to the caller, such as a request that may not use its memory. What is the same for all is in
/// local variables: the frames are bytes, and for all the compiler knows their stores change any member.
uint32_t Requester::build_run(Turn& turn, uint32_t budget, uint32_t window) {
  return run_.reads() ? build_run_of<true>(turn, budget, window) : build_run_of<false>(turn, budget, window);
}

template <bool kReads>
[[gnu::always_inline]] inline uint32_t Requester::build_run_of(Turn& turn, uint32_t budget, uint32_t window) {
  UROCE_ASSERT(send_.window.at_end() && send_.window.unanswered() < window);
  const RequestRun run = run_;
  const Connection& connection = send_.connection;
  queue::SendQueue& queue = *connection.send_queue;
  port::TxBatch& tx = turn.tx;
  const uint32_t first = send_.window.number();
  const uint32_t credits = send_.window.credits();
  uint32_t most = std::min({budget, published_ - first, window - send_.window.unanswered()});
  if (run.sends()) most = std::min(most, credits);
  if constexpr (kReads) {
    const uint32_t reads_max = connection.attributes.max_rd_atomic;
    most = std::min(most, reads_max - std::min(reads_max, send_.window.reads()));
  }
  const uint32_t followed_end = std::min(published_ - first - 1, credits - 1);
  const bool reliable = connection.reliable;
  const bool asks_each = asks_each_;
  // What this turn placed into the same memory must be there before it is read.
  if (!kReads && turn.placer.dirty()) turn.placer.commit();
  const std::span<port::TxFrame> frames = most > 0 ? tx.next(most) : std::span<port::TxFrame>();
  FrameRun making(connection, run.shape, tx);
  Psn psn = send_.window.next();
  bool asks = true;
  uint32_t count = 0;
  for (; count < frames.size(); ++count, ++psn) {
    SendRequest& request = queue.at(first + count);
    if (!run.goes_on_with(request)) break;
    const std::byte* const data = data_of_run<kReads>(run, request, turn);
    if (data == nullptr) [[unlikely]]
      break;
    port::TxFrame& frame = frames[count];
    tx.come_to(frame);
    const bool asks_now = kReads || (reliable && (psn.value() % kPacketsPerAck == kPacketsPerAck - 1 ||
                                                  asks_each || request.signaled || count == followed_end));
    std::byte* const extension = making.begin(frame, asks_now, psn);
    if (kReads || !run.sends())
      wire::write_reth(extension, {request.remote_address, request.rkey, run.length});
    if constexpr (kReads) {
      making.finish(frame);
    } else if (!making.finish(frame, data)) [[unlikely]] {
      break;
    }
    send_.window.start_ahead(request, psn);
    asks = asks_now;
  }
  if (count == 0) return 0;
  making.end();
  tx.commit(count);
  unasked_ = reliable && !asks;
  send_.window.sent_run(count);
  if constexpr (kReads) send_.window.reads_sent(count);
  return count;
}

/// Where all bytes of the request are, or go to if it is a READ; nullptr: they may not be used so, or are not
/// found at once.
template <bool kReads>
[[gnu::always_inline]] inline const std::byte* Requester::data_of_run(const RequestRun& run,
                                                                      const SendRequest& request,
                                                                      Turn& turn) {
  const queue::SendQueue& queue = *send_.connection.send_queue;
  if (request.inline_data) return queue.inline_bytes(request);
  const queue::Segment& only = queue.segments(request).front();
  const mem::RegionEntry::Found found =
      (kReads ? turn.keys.answered_into : turn.keys.sources)
          .resolve_at_once(turn.regions, only.lkey, send_.connection.key_user().domain, only.address,
                           run.length);
  return found.right ? found.data : nullptr;
}

}  // namespace uroce::qp
