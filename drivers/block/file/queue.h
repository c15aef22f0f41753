#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/values/result.h"
#include "block/block.h"
#include "drivers/block/file/backing.h"
#include "drivers/block/file/progress.h"
#include "drivers/block/file/ring.h"

namespace uroce::drivers {

/// Requests to a file through an io_uring of the queue's own. A request under way has one step in the ring;
/// submit() puts the first one there, poll() hands the kernel all that are new and looks what has ended.
class FileQueue final : public block::Queue {
 public:
  /// `backing` outlives the queue. Errors: those of open_ring(), and EINVAL (depth).
  static Result<std::unique_ptr<block::Queue>> open(const Backing& backing, uint32_t block_bytes,
                                                    uint32_t depth,
                                                    std::span<const std::span<std::byte>> buffers);

  ~FileQueue() override;
  bool submit(const block::Request& request) override;
  size_t poll(std::span<block::Ended> ended) override;

  FileQueue(const Backing& backing, uint32_t block_bytes, uint32_t depth, Ring ring,
            RegisteredBuffers buffers);
  FileQueue(const FileQueue&) = delete;
  FileQueue& operator=(const FileQueue&) = delete;

 private:
  void take_step(uint32_t number);
  void prepare(io_uring_sqe* sqe, const Progress& progress) const;
  void prepare_transfer(io_uring_sqe* sqe, const Progress& progress) const;
  [[nodiscard]] block::Outcome explained(block::Outcome outcome) const;

  const Backing& backing_;
  uint32_t block_bytes_;
  Ring ring_;
  RegisteredBuffers buffers_;
  FileAbilities abilities_;
  bool closing_ = false;
  std::vector<Progress> under_way_;  // by the number that the ring carries
  std::vector<uint32_t> free_;       // numbers; never grows beyond its reserve
};

}  // namespace uroce::drivers
