#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "apps/mem/remote_region.h"

namespace uroce::memory_export {

/// What `uroce mem get` and `put` move: a range of a region, from or to a file.
struct Transfer {
  ServerPlace server;
  std::string region;
  std::string file = "-";  // "-": standard input or output
  uint64_t offset = 0;     // in the region
  std::optional<uint64_t> length;
};

// Commands of clients. Each returns the exit status: 0; 1 after one line on standard error; 128 and the
// signal's number when it was interrupted.

/// Prints the names, lengths and access of all regions.
int list(const ServerPlace& server);
/// A file is there as a whole or not at all.
int get(const Transfer& transfer);
/// Returns when the data are in the server's file. Data that do not fit are refused before any is written.
int put(const Transfer& transfer);

}  // namespace uroce::memory_export
