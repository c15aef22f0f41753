#include <time.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/random.h"
#include "drivers/block_registry.h"

// Requests per second that the driver `file` gets from a file, with memory that the kernel knows beforehand;
// perf/run sets beside it what fio gets from the same file.
//
//     block_bench FILE randread|randwrite|read|write BYTES DEPTH SECONDS
//
// A read asks for blocks that were written before, or it is holes that are measured.

namespace uroce {
namespace {

constexpr size_t kBurst = 32;

struct Load {
  bool writes = false;
  bool random = false;
  uint32_t bytes = 0;
  uint32_t depth = 0;
  double seconds = 0;
};

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "block_bench: %s\n", what.c_str());
  std::exit(1);
}

double now() {
  timespec time;
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

class Stream {
 public:
  Stream(block::Device& device, const Load& load)
      : load_(load),
        blocks_(load.bytes / device.properties().block_bytes),
        places_(device.properties().blocks / blocks_),
        pieces_(load.depth) {
    memory_.reset(static_cast<std::byte*>(std::aligned_alloc(4096, size_t{load.bytes} * load.depth)));
    for (uint32_t i = 0; i < load.depth; ++i)
      pieces_[i] = {memory_.get() + size_t{load.bytes} * i, load.bytes};
    const std::span<std::byte> all(memory_.get(), size_t{load.bytes} * load.depth);
    auto queue = device.open_queue(load.depth, {&all, 1});
    if (!queue) fail(queue.error().message);
    queue_ = std::move(*queue);
  }

  double requests_per_second() {
    for (iovec& piece : pieces_) submit(piece);
    const double began = now();
    uint64_t requests = 0;
    double took = 0;
    for (uint64_t polls = 0; took < load_.seconds; ++polls) {
      requests += turn();
      if (polls % 64 == 0) took = now() - began;
    }
    return static_cast<double>(requests) / took;
  }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };

  size_t turn() {
    std::array<block::Ended, kBurst> ended;
    const size_t count = queue_->poll(ended);
    for (const block::Ended& one : std::span(ended).first(count)) {
      if (one.outcome != block::Outcome::kDone) fail("a request failed");
      submit(*static_cast<iovec*>(one.user));
    }
    return count;
  }

  void submit(iovec& piece) {
    const uint64_t place = load_.random ? random_.below(places_) : next_++ % places_;
    if (!queue_->submit({.operation = load_.writes ? block::Operation::kWrite : block::Operation::kRead,
                         .block = place * blocks_,
                         .blocks = blocks_,
                         .memory = {&piece, 1},
                         .user = &piece}))
      fail("the queue is full");
  }

  Load load_;
  uint32_t blocks_;
  uint64_t places_;
  uint64_t next_ = 0;
  Random random_{1};
  std::unique_ptr<std::byte, Free> memory_;
  std::vector<iovec> pieces_;
  std::unique_ptr<block::Queue> queue_;
};

}  // namespace
}  // namespace uroce

int main(int argc, char** argv) {
  using namespace uroce;
  if (argc != 6) fail("FILE randread|randwrite|read|write BYTES DEPTH SECONDS");
  const std::string_view pattern = argv[2];
  const Load load = {.writes = pattern.ends_with("write"),
                     .random = pattern.starts_with("rand"),
                     .bytes = static_cast<uint32_t>(std::atoi(argv[3])),
                     .depth = static_cast<uint32_t>(std::atoi(argv[4])),
                     .seconds = std::atof(argv[5])};
  auto device = drivers::open_block_device({.driver = "file", .path = argv[1], .block_bytes = 4096});
  if (!device) fail(device.error().message);
  if (load.bytes == 0 || load.bytes % 4096 != 0 || load.bytes > (*device)->properties().blocks * 4096)
    fail(std::string(argv[3]) + " bytes a request");
  std::printf("%.0f\n", Stream(**device, load).requests_per_second());
  return 0;
}
