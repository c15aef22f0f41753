#include "nvmf/queue/io_commands.h"

#include <algorithm>
#include <array>

#include "nvmf/format/data_area.h"
#include "nvmf/queue/io_execution.h"
#include "nvmf/queue/queue_state.h"

namespace uroce::nvmf {

namespace {

constexpr uint16_t kBlockAt = 40, kBlocksAt = 48;

uint32_t block_bytes(const Request& request) {
  return request.progress.way->subject->properties().block_bytes;
}

/// A range of blocks: whether the namespace has them.
bool inside(const NamespaceWay& way, uint64_t block, uint64_t blocks) {
  const uint64_t all = way.subject->properties().blocks;
  return block <= all && blocks <= all - block;
}

/// SLBA, NLB and PRINFO, which stand at the same place in all commands that have them.
CommandStatus check_range(QueueState& queue, Request& request) {
  constexpr uint32_t kProtection = 0xFu << 26;
  const Command& command = request.command;
  if (const CommandStatus status = queue.io->find_way(request); !status.ok()) return status;
  request.progress.block = command.dword10 | uint64_t{command.dword11} << 32;
  request.progress.blocks = (command.dword12 & 0xFFFF) + 1;
  // There is no format with protection information.
  if ((command.dword12 & kProtection) != 0)
    return invalid_field(request, kBlocksAt + 3, 2, StatusCode::kInvalidProtectionInfo);
  if (!inside(*request.progress.way, request.progress.block, request.progress.blocks))
    return invalid_field(request, kBlockAt, 0, StatusCode::kLbaOutOfRange);
  return {};
}

/// Checks the range and the length of a command that moves the blocks.
CommandStatus check_transfer(QueueState& queue, Request& request) {
  if (const CommandStatus status = check_range(queue, request); !status.ok()) return status;
  const uint64_t bytes = uint64_t{request.progress.blocks} * block_bytes(request);
  if (bytes > queue.controller->identity().transport.data_bytes_max) return invalid_field(request, kBlocksAt);
  request.data_bytes = static_cast<uint32_t>(bytes);
  return {};
}

CommandStatus check_writable(const Request& request) {
  if (!request.progress.way->subject->read_only()) return {};
  return refused(StatusCode::kNamespaceWriteProtected);
}

block::Request range_of(const Request& request, block::Operation operation) {
  return {.operation = operation, .block = request.progress.block, .blocks = request.progress.blocks};
}

/// FUA, or a write cache that the host has disabled.
bool force_unit_access(QueueState& queue, const Request& request) {
  constexpr uint32_t kForceUnitAccess = 1u << 30;
  return (request.command.dword12 & kForceUnitAccess) != 0 || queue.controller->writes_through();
}

std::optional<CommandStatus> submit_or_wait(QueueState& queue, Request& request,
                                            const block::Request& blocks) {
  if (!queue.io->submit(request, *request.progress.way, blocks)) queue.io->wait(request);
  return std::nullopt;
}

}  // namespace

CommandStatus check_read(QueueState& queue, Request& request) {
  const CommandStatus status = check_transfer(queue, request);
  if (status.ok()) request.in_place = !request.progress.way->memory.empty();
  return status;
}

CommandStatus check_write(QueueState& queue, Request& request) {
  const CommandStatus status = check_transfer(queue, request);
  return status.ok() ? check_writable(request) : status;
}

CommandStatus check_compare(QueueState& queue, Request& request) { return check_transfer(queue, request); }

CommandStatus check_verify(QueueState& queue, Request& request) { return check_range(queue, request); }

CommandStatus check_write_zeroes(QueueState& queue, Request& request) {
  const CommandStatus status = check_range(queue, request);
  return status.ok() ? check_writable(request) : status;
}

CommandStatus check_flush(QueueState& queue, Request& request) {
  if (request.command.nsid != kAllNamespaces) return queue.io->find_way(request);
  queue.io->view().refresh();
  return {};
}

CommandStatus check_deallocate(QueueState& queue, Request& request) {
  const CommandStatus status = queue.io->find_way(request);
  request.data_bytes = ((request.command.dword10 & 0xFF) + 1) * static_cast<uint32_t>(sizeof(DatasetRange));
  return status;
}

std::optional<CommandStatus> read(QueueState& queue, Request& request) {
  if (!request.in_place) {
    block::Request blocks = range_of(request, block::Operation::kRead);
    blocks.memory = request.data;
    return submit_or_wait(queue, request, blocks);
  }
  const uint64_t from = request.progress.block * block_bytes(request);
  request.progress.piece = {request.progress.way->memory.data() + from, request.data_bytes};
  request.data = {&request.progress.piece, 1};
  return CommandStatus{};
}

std::optional<CommandStatus> write(QueueState& queue, Request& request) {
  block::Request blocks = range_of(request, block::Operation::kWrite);
  blocks.memory = request.data;
  blocks.force_unit_access = force_unit_access(queue, request);
  return submit_or_wait(queue, request, blocks);
}

std::optional<CommandStatus> write_zeroes(QueueState& queue, Request& request) {
  // DEAC allows to deallocate, and that the blocks then read as zeroes: to write zeroes is that.
  block::Request blocks = range_of(request, block::Operation::kWriteZeroes);
  blocks.force_unit_access = force_unit_access(queue, request);
  return submit_or_wait(queue, request, blocks);
}

std::optional<CommandStatus> flush(QueueState& queue, Request& request) {
  const block::Request blocks{.operation = block::Operation::kFlush};
  Request::Progress& progress = request.progress;
  if (progress.way != nullptr) {
    if (!progress.way->subject->properties().volatile_cache) return CommandStatus{};
    return submit_or_wait(queue, request, blocks);
  }
  for (uint32_t& nsid = progress.next_part; nsid <= kNsidMax; ++nsid) {
    NamespaceWay* const way = queue.io->view().find(nsid);
    // What this queue never wrote to, others may have written to: all are flushed.
    if (way == nullptr || !way->subject->properties().volatile_cache) continue;
    if (way->blocks == nullptr && !queue.io->view().open(*way)) {
      progress.status = failed(StatusCode::kNamespaceNotReady);
      continue;
    }
    if (!queue.io->submit(request, *way, blocks)) {
      queue.io->wait(request);
      return std::nullopt;
    }
    ++way->users;
  }
  if (progress.steps > 0) return std::nullopt;
  return progress.status;
}

std::optional<CommandStatus> deallocate(QueueState& queue, Request& request) {
  constexpr uint32_t kDeallocate = 1u << 2;
  constexpr size_t kRangesMax = 256;
  Request::Progress& progress = request.progress;
  const uint32_t ranges = (request.command.dword10 & 0xFF) + 1;
  std::array<DatasetRange, kRangesMax> list;
  copy_out(request.data, list.data(), request.data_bytes);
  if (progress.next_part == 0) {
    for (uint32_t i = 0; i < ranges; ++i)
      if (!inside(*progress.way, list[i].block, list[i].blocks)) return refused(StatusCode::kLbaOutOfRange);
    // Everything else that Dataset Management says is advice.
    if ((request.command.dword11 & kDeallocate) == 0) return CommandStatus{};
    if (const CommandStatus status = check_writable(request); !status.ok()) return status;
  }
  for (; progress.next_part < ranges; ++progress.next_part) {
    const DatasetRange& range = list[progress.next_part];
    if (range.blocks == 0) continue;
    return submit_or_wait(
        queue, request,
        {.operation = block::Operation::kDeallocate, .block = range.block, .blocks = range.blocks});
  }
  return CommandStatus{};
}

std::optional<CommandStatus> deallocate_next(QueueState& queue, Request& request) {
  ++request.progress.next_part;
  queue.io->run(request);
  return std::nullopt;
}

std::optional<CommandStatus> examine(QueueState& queue, Request& request) {
  Request::Progress& progress = request.progress;
  const uint32_t bytes = block_bytes(request);
  if (!progress.way->memory.empty()) {
    const auto stored =
        progress.way->memory.subspan(progress.block * bytes, uint64_t{progress.blocks} * bytes);
    const bool same = request.direction == Direction::kNone || equal(request.data, 0, stored);
    return same ? CommandStatus{} : refused(StatusCode::kCompareFailure);
  }
  const std::span<std::byte> scratch = queue.io->borrow_scratch(request);
  if (scratch.empty()) {
    queue.io->wait(request);
    return std::nullopt;
  }
  const uint32_t left = progress.blocks - progress.next_part;
  const auto blocks = std::min(left, static_cast<uint32_t>(scratch.size() / bytes));
  progress.piece = {scratch.data(), uint64_t{blocks} * bytes};
  return submit_or_wait(queue, request,
                        {.operation = block::Operation::kRead,
                         .block = progress.block + progress.next_part,
                         .blocks = blocks,
                         .memory = {&progress.piece, 1}});
}

std::optional<CommandStatus> compare_piece(QueueState& queue, Request& request) {
  const iovec& piece = request.progress.piece;
  const std::span stored(static_cast<const std::byte*>(piece.iov_base), piece.iov_len);
  if (!equal(request.data, uint64_t{request.progress.next_part} * block_bytes(request), stored))
    return refused(StatusCode::kCompareFailure);
  return verify_piece(queue, request);
}

std::optional<CommandStatus> verify_piece(QueueState& queue, Request& request) {
  Request::Progress& progress = request.progress;
  progress.next_part += static_cast<uint32_t>(progress.piece.iov_len / block_bytes(request));
  if (progress.next_part == progress.blocks) return CommandStatus{};
  queue.io->run(request);
  return std::nullopt;
}

}  // namespace uroce::nvmf
