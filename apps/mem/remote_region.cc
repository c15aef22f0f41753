#include "apps/mem/remote_region.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <chrono>

#include "client/failure.h"

namespace uroce::memory_export {
namespace {

using client::Failure;

/// Without any completion for so long a transfer is given up.
constexpr std::chrono::seconds kSilence{60};
constexpr int kPollsBeforeSleep = 1'000;
constexpr std::string_view kFlush = "flush";

}  // namespace

void RemoteRegion::read(uint64_t offset, uint64_t length, const Take& take) {
  uint64_t posted = 0;
  uint64_t taken = 0;
  for (size_t head = 0, tail = 0; taken < length; ++tail) {
    for (; posted < length && head < tail + kPieces; ++head) {
      const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, length - posted));
      post(IBV_WR_RDMA_READ, head % kPieces, {offset + posted, bytes});
      posted += bytes;
    }
    next_completion("READ");
    const uint64_t bytes = std::min<uint64_t>(kPieceBytes, length - taken);
    take(piece(tail % kPieces).first(bytes));
    taken += bytes;
  }
}

void RemoteRegion::write(uint64_t offset, uint64_t length, const Fill& fill) {
  uint64_t posted = 0;
  size_t head = 0;
  size_t tail = 0;
  for (; posted < length; ++head) {
    if (head == tail + kPieces) {
      next_completion("WRITE");
      ++tail;
    }
    const auto bytes = static_cast<uint32_t>(std::min<uint64_t>(kPieceBytes, length - posted));
    fill(piece(head % kPieces).first(bytes));
    post(IBV_WR_RDMA_WRITE, head % kPieces, {offset + posted, bytes});
    posted += bytes;
  }
  for (; tail < head; ++tail) next_completion("WRITE");
}

void RemoteRegion::flush(uint64_t offset, uint64_t length) {
  const size_t slot = kPieces;
  const std::span<std::byte> answer = piece(slot).first(kMessageBytes);
  const std::span<std::byte> request = piece(slot).subspan(kMessageBytes, kMessageBytes);
  ibv_sge into{reinterpret_cast<uintptr_t>(answer.data()), kMessageBytes, memory_->lkey};
  ibv_recv_wr receive{.sg_list = &into, .num_sge = 1};
  ibv_recv_wr* bad_receive = nullptr;
  if (const int error = ibv_post_recv(id_->qp, &receive, &bad_receive); error != 0)
    throw client::failed("ibv_post_recv", error);
  const FlushBytes bytes = encode(Flush{.offset = offset, .length = length});
  std::ranges::copy(bytes, request.begin());
  ibv_sge from{reinterpret_cast<uintptr_t>(request.data()), bytes.size(), memory_->lkey};
  ibv_send_wr send{.sg_list = &from, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* bad_send = nullptr;
  if (const int error = ibv_post_send(id_->qp, &send, &bad_send); error != 0)
    throw client::failed("ibv_post_send", error);
  std::optional<uint32_t> error;
  // The SEND and its answer, in either order.
  for (int i = 0; i < 2; ++i) {
    const ibv_wc done = next_completion(kFlush);
    if (done.opcode == IBV_WC_RECV)
      error = parse_flushed(answer.first(std::min<size_t>(done.byte_len, kMessageBytes)));
  }
  if (!error) throw Failure(fmt::format("{}: the server's answer is not understood", server_));
  if (*error != 0)
    throw client::failed(fmt::format("{}: the server cannot write its file", server_),
                         static_cast<int>(*error));
}

void RemoteRegion::post(ibv_wr_opcode opcode, size_t slot, const Piece& piece_of_region) {
  ibv_sge segment{reinterpret_cast<uintptr_t>(piece(slot).data()), piece_of_region.length, memory_->lkey};
  ibv_send_wr request{.sg_list = &segment, .num_sge = 1, .opcode = opcode, .send_flags = IBV_SEND_SIGNALED};
  request.wr.rdma = {.remote_addr = grant_.address + piece_of_region.offset, .rkey = grant_.key};
  ibv_send_wr* bad = nullptr;
  if (const int error = ibv_post_send(id_->qp, &request, &bad); error != 0)
    throw client::failed("ibv_post_send", error);
}

ibv_wc RemoteRegion::next_completion(std::string_view what) {
  // A server that stands still for good is a mistake of the network's; a flush takes as long as the disk
  // does.
  const bool bounded = what != kFlush;
  const auto begun = std::chrono::steady_clock::now();
  bool ended = false;
  for (int polls = 0;; ++polls) {
    ibv_wc done{};
    const int count = ibv_poll_cq(completions_.get(), 1, &done);
    if (count < 0) throw Failure("ibv_poll_cq failed");
    if (count > 0) {
      check(done, what);
      return done;
    }
    if (ended) throw Failure(fmt::format("{}: the server ended the connection during a {}", server_, what));
    if (polls < kPollsBeforeSleep) continue;
    client::throw_if_interrupted();
    if (bounded && std::chrono::steady_clock::now() - begun > kSilence)
      throw Failure(fmt::format("{}: a {} is not answered for {} s", server_, what, kSilence.count()));
    sleep_until_completion();
    if (const auto event = next_event(0)) ended = event->type == RDMA_CM_EVENT_DISCONNECTED;
  }
}

void RemoteRegion::check(const ibv_wc& done, std::string_view what) const {
  if (done.status == IBV_WC_SUCCESS) return;
  if (done.status == IBV_WC_REM_ACCESS_ERR)
    throw Failure(fmt::format("{}: the server denies a {}", server_, what));
  throw Failure(fmt::format("{}: the connection was lost during a {}: {}", server_, what,
                            ibv_wc_status_str(done.status)));
}

/// Sleeps until a completion comes, an event of the connection does, or a while has passed.
void RemoteRegion::sleep_until_completion() {
  ibv_cq* which = nullptr;
  void* context = nullptr;
  pollfd waiting[2] = {{completion_channel_->fd, POLLIN, 0}, {channel_->fd, POLLIN, 0}};
  if (!armed_) {
    if (const int error = ibv_req_notify_cq(completions_.get(), 0); error != 0)
      throw client::failed("ibv_req_notify_cq", error);
    armed_ = true;
    return;  // what came before that is not told
  }
  if (poll(waiting, 2, kLookMs) <= 0 || waiting[0].revents == 0) return;
  if (ibv_get_cq_event(completion_channel_.get(), &which, &context) == 0) ibv_ack_cq_events(which, 1);
  armed_ = false;
}

}  // namespace uroce::memory_export
