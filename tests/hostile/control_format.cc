// Prints the formats of the service's control messages and of a program's memory as JSON, for control.py.
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
  std::printf("}, \"memory\": {\"bytes\": %zu, \"preamble\": [%llu, %u, %u, %u, %u],",
              host::MemoryLayout(host::kProgramMemory).bytes(),
              static_cast<unsigned long long>(host::kMemoryMagic), host::kProgramMemory.channels,
              host::kProgramMemory.frames, host::kRingFrames, host::kFrameBytes);
  // Where rows of connections lie, how many there are, and where it is said how many are used.
  constexpr host::MemoryLayout kLayout(host::kProgramMemory);
  static std::byte memory[kLayout.bytes()];
  const auto offset_of = [&](const auto& part) { return reinterpret_cast<const std::byte*>(&part) - memory; };
  std::printf(" \"rows\": [%td, %u, %td]}}\n", offset_of(*kLayout.connections(memory)),
              host::kProgramMemory.connections, offset_of(kLayout.usage(memory).connections));
}
