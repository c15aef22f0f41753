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
  static std::byte memory[kLayout.bytes()];
  const auto offset_of = [&](const auto& part) { return reinterpret_cast<const std::byte*>(&part) - memory; };
  const auto shift_of = [](host::FrameDescriptor only) { return std::countr_zero(only.pack()); };
  std::printf("}, \"ring\": %td, \"frames\": %td, \"shifts\": [%d, %d, %d]",
              offset_of(*kLayout.ring(memory, 0)), kLayout.frame(memory, 0) - memory,
              shift_of({.frame = 0, .length = 1, .has_icrc = false}),
              shift_of({.frame = 0, .length = 0, .has_icrc = true}),
              shift_of({.frame = 0, .length = 0, .has_icrc = false, .sequence = 1}));
  std::printf(", \"memory\": {\"bytes\": %zu, \"preamble\": [%llu, %u, %u, %u, %u],", kLayout.bytes(),
              static_cast<unsigned long long>(host::kMemoryMagic), host::kProgramMemory.channels,
              host::kProgramMemory.frames, host::kRingFrames, host::kFrameBytes);
  // Where rows of connections lie, how many there are, and where it is said how many are used.
  std::printf(" \"rows\": [%td, %u, %td]}}\n", offset_of(*kLayout.connections(memory)),
              host::kProgramMemory.connections, offset_of(kLayout.usage(memory).connections));
}
