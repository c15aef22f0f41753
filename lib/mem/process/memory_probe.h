#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::mem {

/// Is every page of [address, address + length) there, readable, and writable if `write`? Pages that are not
/// present yet are filled in as an access of that kind would. Changes no byte, also while other threads
/// write, and raises no signal. length > 0; the range does not wrap.
bool probe_memory(const std::byte* address, uint64_t length, bool write);

/// probe_memory() page by page, for kernels before 5.14 and for mappings whose pages cannot be populated at
/// once.
bool probe_pages(const std::byte* address, uint64_t length, bool write);

/// Probes memory. This one does it on the calling thread; `engine` has one with helpers for large ranges.
class MemoryProber {
 public:
  virtual ~MemoryProber() = default;
  /// Does what probe_memory() does. Control path, any thread.
  virtual bool probe(const std::byte* address, uint64_t length, bool write) {
    return probe_memory(address, length, write);
  }
};

}  // namespace uroce::mem
