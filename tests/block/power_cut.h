#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "block/block.h"

namespace uroce::testing {

/// A device whose power can be cut: what was neither flushed nor written with force_unit_access is then lost,
/// or what of it chance spares survives. Requests end in any order, some polls after they were submitted, and
/// take effect at any time between. One thread.
class PowerCutDevice final : public block::Device {
 public:
  struct Options {
    uint32_t block_bytes = 512;
    uint64_t blocks = 0;
    uint64_t seed = 1;
    uint32_t polls_max = 4;  // until a request ends; at least 1
  };
  /// Of the blocks that were written and are not durable.
  enum class Survivors : uint8_t {
    kNone,  // each reads as what is durable of it
    kSome,  // each reads as what is durable, or as any of the contents that it had since
  };

  explicit PowerCutDevice(const Options& options);
  ~PowerCutDevice() override;

  [[nodiscard]] const block::Properties& properties() const override { return properties_; }
  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>> buffers) override;

  /// Requests under way and later ones of queues that are open end with kGone. Queues that are opened
  /// afterwards see the device with the power back on.
  void cut(Survivors survivors);

 private:
  class PowerCutQueue;
  using Contents = std::vector<std::byte>;  // of a block

  struct Block {
    Contents durable;
    std::vector<Contents> since;  // what was written, oldest first
  };

  [[nodiscard]] const Contents& now(uint64_t block) const;
  void write(uint64_t block, Contents contents, bool durable);
  void flush();

  block::Properties properties_;
  uint32_t polls_max_;
  Random random_;
  std::vector<Block> blocks_;
  uint32_t cuts_ = 0;
};

}  // namespace uroce::testing
