#include "drivers/port/xdp/xdp_queue.h"

#include <algorithm>
#include <utility>

#include "base/process/cancellation.h"
#include "base/values/contract.h"
#include "port/short_frame.h"

namespace uroce::drivers {

XdpQueue::XdpQueue(FrameMemory& memory, std::vector<XdpSocket*> sockets, const KernelInterface& interface)
    : memory_(memory),
      sockets_(std::move(sockets)),
      interface_(interface),
      chunks_(memory, sockets_.size() * XdpSocket::kFrames),
      arrived_(sockets_.size(), ArrivedPieces(memory)) {
  for (XdpSocket* const socket : sockets_) socket->fill(chunks_);
}

uint16_t XdpQueue::receive(std::span<port::RxFrame> frames) {
  const CancellationDisabled held;
  size_t received = 0;
  for (size_t i = 0; i < sockets_.size(); ++i) {
    const size_t turned = (first_ + i) % sockets_.size();
    XdpSocket& socket = *sockets_[turned];
    socket.receive(frames.size() - received, [&](const xdp_desc& piece) {
      if (received < kPrefetched) port::prefetch_frame(memory_.at(piece.addr));
      const bool complete = arrived_[turned].take(piece, frames[received], chunks_);
      received += complete ? 1 : 0;
      return complete;
    });
    socket.fill(chunks_);
    socket.wake_receiver();
  }
  first_ = (first_ + 1) % sockets_.size();
  sockets_.front()->flush();  // what the kernel had no room for
  return static_cast<uint16_t>(received);
}

void XdpQueue::release(std::span<const port::RxFrame> frames) {
  for (const port::RxFrame& frame : frames) chunks_.put(chunk_of(frame.handle));
}

uint16_t XdpQueue::allocate(std::span<port::TxFrame> frames) {
  sockets_.front()->collect(chunks_);
  port::TxFrame* to = frames.data();
  uint64_t chunk = 0;
  for (; to != frames.data() + frames.size() && chunks_.take(chunk); ++to) {
    std::byte* const begin = memory_.at(chunk);
    *to = {.data = begin + FrameMemory::kHeadroom,
           .capacity = memory_.frame_bytes_max(),
           .length = 0,
           .handle = begin};
  }
  return static_cast<uint16_t>(to - frames.data());
}

uint16_t XdpQueue::transmit(std::span<const port::TxFrame> frames) {
  const CancellationDisabled held;
  XdpSocket& socket = *sockets_.front();
  const size_t count = std::min(frames.size(), socket.room());
  for (const port::TxFrame& frame : frames.first(count)) {
    UROCE_ASSERT(frame.length > 0 && frame.length <= frame.capacity);
    socket.send(memory_.address_of(frame.data), frame.length);
  }
  socket.flush();
  // A link that is down loses frames, as any NIC's does.
  if (count == 0 && !frames.empty() && !interface_.running()) {
    free(frames);
    return static_cast<uint16_t>(frames.size());
  }
  return static_cast<uint16_t>(count);
}

void XdpQueue::free(std::span<const port::TxFrame> frames) {
  for (const port::TxFrame& frame : frames) chunks_.put(chunk_of(frame.handle));
}

uint64_t XdpQueue::dropped() const {
  uint64_t dropped = 0;
  for (const XdpSocket* const socket : sockets_) dropped += socket->dropped();
  for (const ArrivedPieces& arrived : arrived_) dropped += arrived.dropped();
  return dropped;
}

}  // namespace uroce::drivers
