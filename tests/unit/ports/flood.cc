#include "flood.h"

#include <array>

namespace uroce::testing {

uint64_t flood_once(port::PortQueue& queue) {
  constexpr uint32_t kFrameBytes = 8000;
  std::array<port::RxFrame, 64> received;
  const uint16_t count = queue.receive(received);
  queue.release({received.data(), count});

  std::array<port::TxFrame, 64> frames;
  const uint16_t made = queue.allocate(frames);
  for (port::TxFrame& frame : std::span(frames).first(made)) frame.length = kFrameBytes;
  const uint16_t sent = queue.transmit({frames.data(), made});
  queue.free(std::span<const port::TxFrame>(frames).subspan(sent, made - sent));
  return count;
}

}  // namespace uroce::testing
