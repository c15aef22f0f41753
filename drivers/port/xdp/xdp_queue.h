#pragma once

#include <cstdint>
#include <vector>

#include "drivers/port/kernel/kernel_interface.h"
#include "drivers/port/xdp/arrived_pieces.h"
#include "drivers/port/xdp/frame_memory.h"
#include "drivers/port/xdp/xdp_socket.h"
#include "port/port.h"

namespace uroce::drivers {

/// The AF_XDP sockets that one poller turns. Frames lie in the port's memory; a handle is the beginning of a
/// frame's first chunk.
class XdpQueue final : public port::PortQueue {
 public:
  /// At least one socket; the first sends.
  XdpQueue(FrameMemory& memory, std::vector<XdpSocket*> sockets, const KernelInterface& interface);

  uint16_t receive(std::span<port::RxFrame> frames) override;
  void release(std::span<const port::RxFrame> frames) override;
  uint16_t allocate(std::span<port::TxFrame> frames) override;
  uint16_t transmit(std::span<const port::TxFrame> frames) override;
  void free(std::span<const port::TxFrame> frames) override;
  port::RxFrame loop(const port::TxFrame& frame) override {
    return {.data = frame.data, .length = frame.length, .handle = frame.handle};
  }
  [[nodiscard]] bool prefers_long_bursts() const override { return true; }
  [[nodiscard]] uint64_t dropped() const override;
  [[nodiscard]] uint64_t transmit_calls() const override { return sockets_.front()->transmit_calls(); }

 private:
  [[nodiscard]] uint64_t chunk_of(const void* handle) const {
    return memory_.address_of(static_cast<const std::byte*>(handle));
  }

  FrameMemory& memory_;
  const std::vector<XdpSocket*> sockets_;
  const KernelInterface& interface_;
  FreeChunks chunks_;
  std::vector<ArrivedPieces> arrived_;  // by socket
  size_t first_ = 0;                    // where the next receive() begins, so that no queue starves another
};

}  // namespace uroce::drivers
