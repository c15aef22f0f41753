#include "engine/platform/parallel_probe.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <utility>
#include <vector>

#include "engine/platform/processors.h"
#include "engine/platform/thread.h"

namespace uroce::engine {

namespace {

/// A range in parts that end where hugepages do. A thread takes the next part.
class Work {
 public:
  Work(const std::byte* address, uint64_t length, bool write)
      : address_(address), length_(length), write_(write) {}

  /// The next part. False: there is none left, or some part is not there.
  bool run_one() {
    if (!there_.load(std::memory_order_relaxed)) return false;  // a hint: no thread need see it at once
    const uint64_t part = next_.fetch_add(1, std::memory_order_relaxed);  // only its number matters
    const uint64_t in_part = reinterpret_cast<uintptr_t>(address_) % ParallelProbe::kPartBytes;
    const uint64_t start = part == 0 ? 0 : part * ParallelProbe::kPartBytes - in_part;
    if (start >= length_) return false;
    const uint64_t end = std::min((part + 1) * ParallelProbe::kPartBytes - in_part, length_);
    if (mem::probe_memory(address_ + start, end - start, write_)) return true;
    there_.store(false, std::memory_order_relaxed);  // joining the thread makes it visible
    return false;
  }
  [[nodiscard]] bool there() const { return there_.load(std::memory_order_relaxed); }  // after the joins

 private:
  const std::byte* const address_;
  const uint64_t length_;
  const bool write_;
  std::atomic<uint64_t> next_{0};
  std::atomic<bool> there_{true};
};

constexpr std::chrono::microseconds kWorthAThread{200};

void share(Work& work, size_t threads_max) {
  const std::vector<uint32_t> processors = allowed_processors_nearby();
  const size_t threads = std::min({ParallelProbe::kThreadsMax, processors.size(), threads_max});
  const auto run = [&work] {
    while (work.run_one()) continue;
  };
  std::vector<Thread> helpers;  // joined on return
  helpers.reserve(threads);
  while (helpers.size() + 1 < threads) {
    Result<Thread> helper = Thread::start("uroce-probe", processors, run);
    if (!helper) break;  // the others do it
    helpers.push_back(std::move(*helper));
  }
  run();
}

}  // namespace

bool ParallelProbe::probe(const std::byte* address, uint64_t length, bool write) {
  if (length < 2 * kPartBytes) return mem::probe_memory(address, length, write);
  Work work(address, length, write);
  // Hugepages that are there already are looked at faster than a thread starts.
  for (auto before = std::chrono::steady_clock::now(); work.run_one();) {
    const auto now = std::chrono::steady_clock::now();
    if (now - before > kWorthAThread) {
      share(work, static_cast<size_t>(length / kPartBytes));
      break;
    }
    before = now;
  }
  return work.there();
}

}  // namespace uroce::engine
