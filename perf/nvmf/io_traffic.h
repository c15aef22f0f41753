#pragma once

#include <cstdint>
#include <string>

namespace uroce::perf {

/// What an initiator asks of a namespace, I/O by I/O of one size.
struct IoTraffic {
  bool write = false;
  bool random = true;
  uint32_t bytes = 4096;    // of each; a multiple of the block size
  uint32_t depth = 128;     // commands under way
  bool in_capsule = false;  // data to be written comes with the command
  bool registered = false;  // a fast region for each command, which its response invalidates
  bool verified = true;     // the namespace keeps what is written to it
};

/// Where both ends find each other, and the namespace.
struct IoPlace {
  std::string target_address;
  std::string own_address;  // the initiator's
  uint16_t port = 4420;
  uint64_t namespace_bytes = 256u << 20;
};
inline constexpr const char* kExportedNqn = "nqn.2026-11.example:perf";
inline constexpr uint32_t kExportedNsid = 1;
inline constexpr uint32_t kExportedBlockBytes = 512;
/// Entries of an I/O queue: a full one has one command less.
inline constexpr uint32_t kIoEntriesMax = 256;

}  // namespace uroce::perf
