// Decision: frames lie in the memory of their sender. A receiver need not copy a long payload before it is
// placed (port/frame_body.h). A sender that changes it meanwhile sends another payload.
#include "host/own_memory.h"

#include <cstring>

namespace uroce::host {
namespace {

Preamble preamble_of(MemoryShape shape) {
  return {.magic = kMemoryMagic,
          .channels = shape.channels,
          .frames = shape.frames,
          .ring_frames = kRingFrames,
          .frame_bytes = kFrameBytes};
}

}  // namespace

OwnMemory::OwnMemory(std::byte* memory, MemoryShape shape) : memory_(memory), layout_(shape) {
  UROCE_ASSERT(shape.channels > 0 && shape.frames > 0 && shape.frames <= 1u << 16);
  free_.reserve(shape.frames);
  const Preamble preamble = preamble_of(shape);
  std::memcpy(memory, &preamble, sizeof preamble);
}

bool has_format(const std::byte* memory, MemoryShape shape) {
  const Preamble expected = preamble_of(shape);
  return std::memcmp(memory, &expected, sizeof expected) == 0;
}

}  // namespace uroce::host
