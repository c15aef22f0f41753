#include "drivers/block/file/queue.h"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>
#include <string>
#include <utility>

#include "base/values/contract.h"

namespace uroce::drivers {
namespace {

constexpr uint32_t kDepthMax = 32768;        // the entries that a ring can have
constexpr uint64_t kTransferMax = 1u << 30;  // of one piece in one step; the kernel stops before 2 GiB
constexpr size_t kPiecesMax = IOV_MAX;
constexpr size_t kBurst = 64;
constexpr int kOnlyFile = 0;  // among the ring's own files

constexpr size_t kZeroBytes = 256u << 10;
alignas(4096) std::array<std::byte, kZeroBytes> zeroes;  // never written to

}  // namespace

Result<std::unique_ptr<block::Queue>> FileQueue::open(const Backing& backing, uint32_t block_bytes,
                                                      uint32_t depth,
                                                      std::span<const std::span<std::byte>> buffers) {
  if (depth == 0 || depth > kDepthMax)
    return Error{EINVAL, "file " + backing.path() + ": a queue of depth " + std::to_string(depth) +
                             " (1 to " + std::to_string(kDepthMax) + ")"};
  Result<Ring> ring = open_ring(depth);
  if (!ring) return Error{ring.error().code, "file " + backing.path() + ": " + ring.error().message};
  const int file = backing.file();
  if (const int result = io_uring_register_files(ring->get(), &file, 1); result != 0)
    return Error{-result,
                 "file " + backing.path() + ": io_uring does not take it: " + strerrordesc_np(-result)};
  RegisteredBuffers registered(ring->get(), buffers);
  return std::unique_ptr<block::Queue>(
      std::make_unique<FileQueue>(backing, block_bytes, depth, std::move(*ring), std::move(registered)));
}

FileQueue::FileQueue(const Backing& backing, uint32_t block_bytes, uint32_t depth, Ring ring,
                     RegisteredBuffers buffers)
    : backing_(backing),
      block_bytes_(block_bytes),
      ring_(std::move(ring)),
      buffers_(std::move(buffers)),
      under_way_(depth) {
  free_.reserve(depth);
  for (uint32_t number = depth; number > 0; --number) free_.push_back(number - 1);
}

/// The kernel writes to the memory of requests until it has said that it will not.
FileQueue::~FileQueue() {
  closing_ = true;
  std::array<block::Ended, kBurst> ended;
  while (free_.size() < under_way_.size()) {
    (void)io_uring_submit_and_wait(ring_.get(), 1);
    (void)poll(ended);
  }
}

bool FileQueue::submit(const block::Request& request) {
  if (free_.empty()) return false;
  const uint32_t number = free_.back();
  free_.pop_back();
  under_way_[number] = Progress(request, block_bytes_, abilities_);
  take_step(number);
  return true;
}

size_t FileQueue::poll(std::span<block::Ended> ended) {
  // What the kernel does not take now (EAGAIN) is handed to it next time.
  if (io_uring_sq_ready(ring_.get()) != 0) (void)io_uring_submit(ring_.get());
  std::array<io_uring_cqe*, kBurst> completions;
  const unsigned completed = io_uring_peek_batch_cqe(
      ring_.get(), completions.data(), static_cast<unsigned>(std::min(ended.size(), completions.size())));
  size_t count = 0;
  for (const io_uring_cqe* completion : std::span(completions).first(completed)) {
    const auto number = static_cast<uint32_t>(completion->user_data);
    Progress& progress = under_way_[number];
    std::optional<block::Outcome> outcome = progress.settle(completion->res, abilities_);
    if (!outcome && closing_) outcome = block::Outcome::kGone;
    if (!outcome) {
      take_step(number);
      continue;
    }
    ended[count++] = {progress.request().user, explained(*outcome)};
    free_.push_back(number);
  }
  io_uring_cq_advance(ring_.get(), completed);
  return count;
}

void FileQueue::take_step(uint32_t number) {
  io_uring_sqe* const sqe = io_uring_get_sqe(ring_.get());
  UROCE_ASSERT(sqe != nullptr);  // the ring has one for every request
  prepare(sqe, under_way_[number]);
  io_uring_sqe_set_flags(sqe, IOSQE_FIXED_FILE);
  io_uring_sqe_set_data64(sqe, number);
}

void FileQueue::prepare(io_uring_sqe* sqe, const Progress& progress) const {
  const auto offset = static_cast<off_t>(progress.offset());
  const auto length = static_cast<off_t>(progress.bytes_left());
  switch (progress.step()) {
    case Step::kTransfer:
      return prepare_transfer(sqe, progress);
    case Step::kZeroRange:
      return io_uring_prep_fallocate(sqe, kOnlyFile, FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE, offset,
                                     length);
    case Step::kZeroes:
      io_uring_prep_write(sqe, kOnlyFile, zeroes.data(),
                          static_cast<unsigned>(std::min<uint64_t>(progress.bytes_left(), kZeroBytes)),
                          progress.offset());
      if (progress.request().force_unit_access) sqe->rw_flags = RWF_DSYNC;
      return;
    case Step::kPunchHole:
      return io_uring_prep_fallocate(sqe, kOnlyFile, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, offset,
                                     length);
    case Step::kSync:
      return io_uring_prep_fsync(sqe, kOnlyFile, IORING_FSYNC_DATASYNC);
  }
}

/// Whole pieces together; what is left of one that was begun, or one that is the last, by itself.
void FileQueue::prepare_transfer(io_uring_sqe* sqe, const Progress& progress) const {
  const bool reads = progress.request().operation == block::Operation::kRead;
  const std::span<const iovec> pieces = progress.pieces();
  if (pieces.size() > 1 && progress.piece_offset() == 0) {
    const auto count = static_cast<unsigned>(std::min(pieces.size(), kPiecesMax));
    const auto prepare_vector = reads ? io_uring_prep_readv : io_uring_prep_writev;
    prepare_vector(sqe, kOnlyFile, pieces.data(), count, progress.offset());
  } else {
    auto* const memory = static_cast<std::byte*>(pieces[0].iov_base) + progress.piece_offset();
    const auto length =
        static_cast<unsigned>(std::min(pieces[0].iov_len - progress.piece_offset(), kTransferMax));
    UROCE_ASSERT(reinterpret_cast<uintptr_t>(memory) % backing_.memory_alignment() == 0);
    const std::optional<uint16_t> index = buffers_.index_of(memory, length);
    if (index && reads) {
      io_uring_prep_read_fixed(sqe, kOnlyFile, memory, length, progress.offset(), *index);
    } else if (index) {
      io_uring_prep_write_fixed(sqe, kOnlyFile, memory, length, progress.offset(), *index);
    } else if (reads) {
      io_uring_prep_read(sqe, kOnlyFile, memory, length, progress.offset());
    } else {
      io_uring_prep_write(sqe, kOnlyFile, memory, length, progress.offset());
    }
  }
  if (!reads && progress.request().force_unit_access) sqe->rw_flags = RWF_DSYNC;
}

/// A block device that was pulled out has no end to read or write behind: the kernel says nothing else.
block::Outcome FileQueue::explained(block::Outcome outcome) const {
  if (outcome == block::Outcome::kDone || !backing_.is_block_device()) return outcome;
  return was_taken_away(backing_.file()) ? block::Outcome::kGone : outcome;
}

}  // namespace uroce::drivers
