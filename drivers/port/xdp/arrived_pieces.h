#pragma once

#include <linux/if_xdp.h>

#include <cstdint>

#include "drivers/port/xdp/frame_memory.h"
#include "drivers/port/xdp/xdp_socket.h"
#include "port/port.h"

namespace uroce::drivers {

/// Makes frames of the pieces that one AF_XDP socket received, in order. The first piece stays where it is,
/// and those behind it are copied to its end, for a frame is contiguous: of a packet with a path MTU of 4096
/// that is a tenth. The poller's, except where said.
class ArrivedPieces {
 public:
  explicit ArrivedPieces(FrameMemory& memory) : memory_(memory) {}

  /// True: `frame` is complete. Chunks that are no longer needed go to `chunks`.
  bool take(const xdp_desc& piece, port::RxFrame& frame, FreeChunks& chunks) {
    const bool is_last = (piece.options & kXdpPacketContinues) == 0;
    if (!is_last || length_ != 0) [[unlikely]]
      return add(piece, is_last, frame, chunks);
    hand_out(piece.addr, piece.len, frame);
    return true;
  }
  /// Frames with more bytes than the memory has room for in one. Any thread.
  [[nodiscard]] uint64_t dropped() const { return __atomic_load_n(&dropped_, __ATOMIC_RELAXED); }

 private:
  bool add(const xdp_desc& piece, bool is_last, port::RxFrame& frame, FreeChunks& chunks);
  void hand_out(uint64_t address, uint32_t length, port::RxFrame& frame) const {
    frame = {.data = memory_.at(address), .length = length, .handle = memory_.at(memory_.chunk_of(address))};
  }

  FrameMemory& memory_;
  uint64_t first_ = 0;   // where the frame begins that is incomplete
  uint32_t length_ = 0;  // of what has come of it; 0: none is
  bool fits_ = true;
  uint64_t dropped_ = 0;  // written by the poller, read by anyone
};

}  // namespace uroce::drivers
