#pragma once

#include <cstdint>
#include <optional>

#include "block/block.h"

namespace uroce::drivers {

/// What the kernel is asked for at one time. A request takes one step after another.
enum class Step : uint8_t {
  kTransfer,   // the rest of the data, or as much of it as one call takes
  kZeroRange,  // the file system or the device makes zeroes
  kZeroes,     // it cannot: zeroes are written
  kPunchHole,
  kSync,
};

/// What the file can do; found out by asking.
struct FileAbilities {
  bool zero_range = true;
};

/// How far a request has come. Knows what follows from the result of a step, does not ask the kernel for
/// anything.
class Progress {
 public:
  Progress() = default;
  Progress(const block::Request& request, uint32_t block_bytes, const FileAbilities& abilities);

  [[nodiscard]] const block::Request& request() const { return request_; }
  [[nodiscard]] Step step() const { return step_; }
  /// Where in the file the step begins, and what is left from there.
  [[nodiscard]] uint64_t offset() const { return request_.block * block_bytes_ + done_; }
  [[nodiscard]] uint64_t bytes_left() const { return uint64_t{request_.blocks} * block_bytes_ - done_; }
  /// kTransfer: memory of the rest. Of the first piece only what comes after `piece_offset()`.
  [[nodiscard]] std::span<const iovec> pieces() const { return request_.memory.subspan(piece_); }
  [[nodiscard]] uint64_t piece_offset() const { return piece_offset_; }

  /// The step ended: bytes, 0, or -errno. Nothing: there is another step to take.
  [[nodiscard]] std::optional<block::Outcome> settle(int32_t result, FileAbilities& abilities);

 private:
  std::optional<block::Outcome> moved(int32_t result);
  std::optional<block::Outcome> failed(int error, FileAbilities& abilities);
  void advance(uint64_t bytes);

  block::Request request_;
  uint32_t block_bytes_ = 0;
  Step step_ = Step::kTransfer;
  uint8_t again_ = 0;  // times in a row that a step was to be taken again
  uint64_t done_ = 0;
  size_t piece_ = 0;
  uint64_t piece_offset_ = 0;
};

}  // namespace uroce::drivers
