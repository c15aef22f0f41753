#include <algorithm>
#include <array>

#include "apps/mem/server.h"

namespace uroce::memory_export {

void Server::read_completions(DeviceRegions& device) {
  device.rearm();
  std::array<ibv_wc, 64> done;
  int count = 0;
  while ((count = ibv_poll_cq(device.completions(), done.size(), done.data())) > 0) {
    for (const ibv_wc& one : std::span(done).first(static_cast<size_t>(count))) {
      const uint64_t number = one.wr_id >> 2;
      const auto at = connections_.find(number);
      if (at == connections_.end()) continue;
      if (one.status != IBV_WC_SUCCESS) {
        end(number);
        continue;
      }
      at->second.heard = Clock::now();
      const auto work = static_cast<Work>(one.wr_id & 3);
      if (work == Work::kProbe) at->second.probing = false;
      if (work == Work::kReceive) on_message(number, at->second, one.byte_len);
    }
  }
}

void Server::on_message(uint64_t number, Connection& connection, size_t length) {
  const auto flush = parse_flush(received(connection).first(std::min(length, kMessageBytes)));
  const SharedRegion& region = connection.registration->region;
  // Of its answers one may be on its way; a client that asks again before it has one breaks the protocol.
  if (!flush || connection.flushing) return end(number);
  const bool inside =
      flush->offset <= region->bytes().size() && flush->length <= region->bytes().size() - flush->offset;
  const bool syncs = inside && region->writable();
  if (syncs) {
    connection.flushing = true;
    flusher_.submit({number, region, flush->offset, flush->length});
  }
  // Before the answer: the next request may follow at once.
  if (!post_receive(number, connection)) return end(number);
  if (!syncs && !post_answer(number, connection, inside ? EROFS : EINVAL)) end(number);
}

void Server::answer_flushes() {
  for (const FlushResult& done : flusher_.take()) {
    const auto at = connections_.find(done.number);
    if (at == connections_.end()) continue;
    at->second.flushing = false;
    if (!post_answer(done.number, at->second, done.error)) end(done.number);
  }
}

bool Server::post_receive(uint64_t number, const Connection& connection) {
  const std::span<std::byte> place = received(connection);
  ibv_sge segment{reinterpret_cast<uintptr_t>(place.data()), static_cast<uint32_t>(place.size()),
                  connection.registration->messages->lkey};
  ibv_recv_wr request{.wr_id = work_id(number, Work::kReceive), .sg_list = &segment, .num_sge = 1};
  ibv_recv_wr* bad = nullptr;
  return ibv_post_recv(connection.id->qp, &request, &bad) == 0;
}

/// False when the queue is full, too: the client has not acknowledged its last answers.
bool Server::post_answer(uint64_t number, const Connection& connection, int error) {
  // The client has the answer before this one, or it would not have asked again.
  const std::span<std::byte> place = sent(connection);
  const FlushedBytes bytes = encode_flushed(static_cast<uint32_t>(error));
  std::ranges::copy(bytes, place.begin());
  ibv_sge segment{reinterpret_cast<uintptr_t>(place.data()), static_cast<uint32_t>(bytes.size()),
                  connection.registration->messages->lkey};
  ibv_send_wr request{.wr_id = work_id(number, Work::kAnswer),
                      .sg_list = &segment,
                      .num_sge = 1,
                      .opcode = IBV_WR_SEND,
                      .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(connection.id->qp, &request, &bad) == 0;
}

/// A WRITE of nothing needs no key and changes nothing; a peer that has gone does not acknowledge it.
bool Server::probe(uint64_t number, Connection& connection) {
  ibv_send_wr request{
      .wr_id = work_id(number, Work::kProbe), .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED};
  ibv_send_wr* bad = nullptr;
  connection.probing = true;
  return ibv_post_send(connection.id->qp, &request, &bad) == 0;
}

}  // namespace uroce::memory_export
