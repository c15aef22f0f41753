#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "copy/placer.h"

namespace uroce::perf {

/// Memory that fits no cache, and the placement of frames' payload there as messages. It is there when it is
/// used first.
class PlacedRegion {
 public:
  ~PlacedRegion() {
    if (memory_ != nullptr) ::munmap(memory_, kBytes);
  }
  PlacedRegion() = default;
  PlacedRegion(const PlacedRegion&) = delete;
  PlacedRegion& operator=(const PlacedRegion&) = delete;

  /// The payload of frame `number`, behind that of the one before it; all are of the same length. What comes
  /// in kMessage frames is one message.
  void place(uint64_t number, const std::byte* from, size_t bytes) {
    if (memory_ == nullptr) make();
    std::byte* const to = memory_ + number % (kBytes / bytes) * bytes;
    if (number % kMessage == kMessage - 1)
      placer_.place_last(to, from, bytes, MemoryNature(true));
    else
      placer_.place(to, from, bytes, MemoryNature(true));
  }
  void commit() { placer_.commit(); }

 private:
  static constexpr size_t kBytes = 512 << 20;
  static constexpr uint64_t kMessage = 16;

  void make() {
    void* const at =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (at == MAP_FAILED) throw std::runtime_error("no memory to place into");
    memory_ = static_cast<std::byte*>(at);
  }

  std::byte* memory_ = nullptr;
  copy::Placer placer_{copy::Kind::kAuto};
};

}  // namespace uroce::perf
