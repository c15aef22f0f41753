#include "drivers/block/null/null.h"

#include <algorithm>
#include <string>
#include <utility>

#include "drivers/block/bounded_queue.h"

namespace uroce::drivers {
namespace {

class NullQueue final : public block::Queue {
 public:
  explicit NullQueue(uint32_t depth) : depth_(depth), ended_(depth) {}

  bool submit(const block::Request& request) override {
    if (ended_.size() == depth_) return false;
    ended_.push({.user = request.user});
    return true;
  }

  size_t poll(std::span<block::Ended> ended) override {
    const size_t count = std::min(ended.size(), ended_.size());
    for (block::Ended& one : ended.first(count)) one = ended_.pop();
    return count;
  }

 private:
  uint32_t depth_;
  BoundedQueue<block::Ended> ended_;
};

class NullDevice final : public block::Device {
 public:
  explicit NullDevice(block::Properties properties) : properties_(std::move(properties)) {}

  [[nodiscard]] const block::Properties& properties() const override { return properties_; }

  Result<std::unique_ptr<block::Queue>> open_queue(uint32_t depth,
                                                   std::span<const std::span<std::byte>>) override {
    return std::unique_ptr<block::Queue>(std::make_unique<NullQueue>(depth));
  }

 private:
  block::Properties properties_;
};

}  // namespace

Result<std::unique_ptr<block::Device>> open_null(const BlockSpecification& specification) {
  const uint32_t block_bytes = specification.block_bytes.value_or(512);
  block::Properties properties = {
      .description = "null, " + std::to_string(*specification.size_bytes) + " bytes of nothing",
      .block_bytes = block_bytes,
      .blocks = *specification.size_bytes / block_bytes,
      .read_only = specification.read_only};
  return std::unique_ptr<block::Device>(std::make_unique<NullDevice>(std::move(properties)));
}

}  // namespace uroce::drivers
