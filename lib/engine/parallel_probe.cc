#include "engine/parallel_probe.h"

#include <algorithm>
#include <atomic>
#include <vector>

#include "engine/processors.h"
#include "engine/thread.h"

namespace uroce::engine {

namespace {

/// A range in parts that end where hugepages do. Whoever comes takes the next part.
class Work {
 public:
  Work(const std::byte* address, uint64_t length, bool write)
      : address_(address), length_(length), write_(write) {}

  /// Until there is nothing left, or a part is not there.
  void run() {
    while (there_.load(std::memory_order_relaxed)) {  // a hint: nobody need see it at once
      const uint64_t part = next_.fetch_add(1, std::memory_order_relaxed);  // only its number matters
      const uint64_t in_part = reinterpret_cast<uintptr_t>(address_) % ParallelProbe::kPartBytes;
      const uint64_t start = part == 0 ? 0 : part * ParallelProbe::kPartBytes - in_part;
      if (start >= length_) return;
      const uint64_t end = std::min((part + 1) * ParallelProbe::kPartBytes - in_part, length_);
      // Joining the thread makes it visible.
      if (!mem::probe_memory(address_ + start, end - start, write_))
        there_.store(false, std::memory_order_relaxed);
    }
  }
  [[nodiscard]] bool there() const { return there_.load(std::memory_order_relaxed); }  // after the joins

 private:
  const std::byte* const address_;
  const uint64_t length_;
  const bool write_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> there_{true};
};

}  // namespace

bool ParallelProbe::probe(const std::byte* address, uint64_t length, bool write) {
  if (length < 2 * kPartBytes) return mem::probe_memory(address, length, write);
  const std::vector<uint32_t> processors = allowed_processors_nearby();
  const size_t threads = std::min({kThreadsMax, processors.size(), static_cast<size_t>(length / kPartBytes)});
  Work work(address, length, write);
  {
    std::vector<Thread> helpers;  // joined at the end of the block
    helpers.reserve(threads);
    while (helpers.size() + 1 < threads) {
      Result<Thread> helper = Thread::start("uroce-probe", processors, [&work] { work.run(); });
      if (!helper) break;  // the others do it
      helpers.push_back(std::move(*helper));
    }
    work.run();
  }
  return work.there();
}

}  // namespace uroce::engine
