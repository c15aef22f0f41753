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
  std::printf("}, \"memory\": {\"bytes\": %zu, \"preamble\": [%llu, %u, %u, %u, %u]}}\n",
              host::MemoryLayout(host::kProgramMemory).bytes(),
              static_cast<unsigned long long>(host::kMemoryMagic), host::kProgramMemory.channels,
              host::kProgramMemory.frames, host::kRingFrames, host::kFrameBytes);
}
