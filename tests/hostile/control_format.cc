// Prints the formats of the service's control messages and of a program's memory as JSON, for control.py.
#include <bit>
#include <cstddef>
#include <cstdio>

#include "host/control.h"
#include "host/memory_format.h"

namespace host = uroce::host;

int main() {
  std::printf("{\"version\": %u, \"size\": %zu, \"fields\": {", host::kControlVersion, sizeof(host::Message));
  const char* comma = "";
  const auto field = [&](const char* name, size_t offset, size_t bytes) {
    std::printf("%s\"%s\": [%zu, %zu]", comma, name, offset, bytes);
    comma = ", ";
  };
#define FIELD(name) field(#name, offsetof(host::Message, name), sizeof(host::Message::name))
  FIELD(type);
  FIELD(version);
  FIELD(request);
  FIELD(error);
  FIELD(number);
  FIELD(count);
  FIELD(channel);
  FIELD(mtu);
  FIELD(flags);
  FIELD(space);
  FIELD(port);
  FIELD(vlan);
  FIELD(prefix_bits);
  FIELD(up);
  FIELD(id);
  FIELD(address);
  FIELD(hop);
  FIELD(mac);
  FIELD(name);
  FIELD(text);
#undef FIELD
  // Where the ring to the service and the frames are, and where in a packed descriptor of a frame its parts.
  constexpr host::MemoryLayout kLayout(host::kProgramMemory);
  const std::byte* const begin = nullptr;
  const auto shift_of = [](host::FrameDescriptor only) { return std::countr_zero(only.pack()); };
  std::printf("}, \"ring\": %zu, \"frames\": %zu, \"shifts\": [%d, %d, %d]",
              reinterpret_cast<size_t>(kLayout.ring(begin, 0)),
              reinterpret_cast<size_t>(kLayout.frame(begin, 0)),
              shift_of({.frame = 0, .length = 1, .has_icrc = false}),
              shift_of({.frame = 0, .length = 0, .has_icrc = true}),
              shift_of({.frame = 0, .length = 0, .has_icrc = false, .sequence = 1}));
  std::printf(", \"memory\": {\"bytes\": %zu, \"preamble\": [%llu, %u, %u, %u, %u]}}\n", kLayout.bytes(),
              static_cast<unsigned long long>(host::kMemoryMagic), host::kProgramMemory.channels,
              host::kProgramMemory.frames, host::kRingFrames, host::kFrameBytes);
}
