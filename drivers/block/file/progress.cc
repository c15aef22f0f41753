#include "drivers/block/file/progress.h"

#include <algorithm>
#include <cerrno>

#include "base/values/contract.h"

namespace uroce::drivers {
namespace {

constexpr uint8_t kAgainMax = 100;

Step first_step(const block::Request& request, const FileAbilities& abilities) {
  switch (request.operation) {
    case block::Operation::kRead:
    case block::Operation::kWrite:
      return Step::kTransfer;
    case block::Operation::kFlush:
      return Step::kSync;
    case block::Operation::kWriteZeroes:
      return abilities.zero_range ? Step::kZeroRange : Step::kZeroes;
    case block::Operation::kDeallocate:
      break;
  }
  return Step::kPunchHole;
}

block::Outcome outcome_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
      return block::Outcome::kNoSpace;
    case ENODEV:
    case ENXIO:
    case ESTALE:
      return block::Outcome::kGone;
    default:
      return block::Outcome::kMediaError;
  }
}

}  // namespace

Progress::Progress(const block::Request& request, uint32_t block_bytes, const FileAbilities& abilities)
    : request_(request), block_bytes_(block_bytes), step_(first_step(request, abilities)) {}

std::optional<block::Outcome> Progress::settle(int32_t result, FileAbilities& abilities) {
  if (result < 0) return failed(-result, abilities);
  again_ = 0;
  switch (step_) {
    case Step::kTransfer:
    case Step::kZeroes:
      return moved(result);
    case Step::kZeroRange:
      if (!request_.force_unit_access) return block::Outcome::kDone;
      step_ = Step::kSync;
      return std::nullopt;
    case Step::kPunchHole:
    case Step::kSync:
      break;
  }
  return block::Outcome::kDone;
}

/// A step that moved less than it was to is followed by another from the last whole block: it says what is
/// wrong, if anything is. One without a whole block is at the end of a file that became shorter.
std::optional<block::Outcome> Progress::moved(int32_t result) {
  const auto bytes = static_cast<uint64_t>(result) / block_bytes_ * block_bytes_;
  UROCE_ASSERT(bytes <= bytes_left());
  if (bytes == 0) return block::Outcome::kMediaError;
  advance(bytes);
  return bytes_left() == 0 ? std::optional(block::Outcome::kDone) : std::nullopt;
}

std::optional<block::Outcome> Progress::failed(int error, FileAbilities& abilities) {
  if ((error == EINTR || error == EAGAIN) && again_ < kAgainMax) {
    ++again_;
    return std::nullopt;
  }
  if (error == EOPNOTSUPP && step_ == Step::kZeroRange) {
    abilities.zero_range = false;
    step_ = Step::kZeroes;
    return std::nullopt;
  }
  // The contents may stay as they are.
  if (error == EOPNOTSUPP && step_ == Step::kPunchHole) return block::Outcome::kDone;
  return outcome_of(error);
}

void Progress::advance(uint64_t bytes) {
  done_ += bytes;
  if (step_ != Step::kTransfer) return;
  while (bytes > 0) {
    const uint64_t here = std::min(bytes, request_.memory[piece_].iov_len - piece_offset_);
    piece_offset_ += here;
    bytes -= here;
    if (piece_offset_ < request_.memory[piece_].iov_len) continue;
    ++piece_;
    piece_offset_ = 0;
  }
}

}  // namespace uroce::drivers
