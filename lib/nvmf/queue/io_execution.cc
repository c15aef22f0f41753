#include "nvmf/queue/io_execution.h"

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

#include "base/values/contract.h"
#include "nvmf/queue/command_row.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

constexpr size_t kScratchBytes = 64 << 10;
constexpr size_t kScratchAlignment = 4096;
/// Block requests looked at per namespace and poll.
constexpr size_t kEndedMax = 64;

std::byte* allocate_scratch() {
  void* const memory = std::aligned_alloc(kScratchAlignment, kScratchBytes);
  if (memory == nullptr) throw std::bad_alloc();
  return static_cast<std::byte*>(memory);
}

CommandStatus status_of(block::Outcome outcome, bool write) {
  switch (outcome) {
    case block::Outcome::kDone:
      return {};
    case block::Outcome::kMediaError:
      return refused(write ? StatusCode::kWriteFault : StatusCode::kUnrecoveredReadError);
    case block::Outcome::kNoSpace:
      return refused(StatusCode::kCapacityExceeded);
    case block::Outcome::kGone:
      return refused(StatusCode::kNamespaceNotReady);
  }
  return refused(StatusCode::kInternalError);
}

}  // namespace

void IoExecution::AlignedDelete::operator()(std::byte* memory) const { std::free(memory); }

IoExecution::IoExecution(QueueState& queue, Controller& controller)
    : queue_(queue),
      controller_(controller),
      counters_(controller.subsystem().open_counters()),
      view_(controller.subsystem(), queue.options.entries, queue.options.buffers),
      scratch_(allocate_scratch()) {}

IoExecution::~IoExecution() = default;

CommandStatus IoExecution::find_way(Request& request) {
  const uint32_t nsid = request.command.nsid;
  if (nsid == 0 || nsid > kNsidMax) return invalid_field(request, kNsidAt, 0, StatusCode::kInvalidNamespace);
  NamespaceWay* way = view_.find(nsid);
  if (way == nullptr) {
    // The host may have heard of it sooner than this queue was polled.
    view_.refresh();
    way = view_.find(nsid);
  }
  if (way == nullptr) return invalid_field(request, kNsidAt);
  switch (way->subject->ana_state()) {
    case AnaState::kOptimized:
    case AnaState::kNonOptimized:
      break;
    case AnaState::kInaccessible:
      return failed(StatusCode::kAnaInaccessible);
    case AnaState::kPersistentLoss:
      return failed(StatusCode::kAnaPersistentLoss);
    case AnaState::kChange:
      return failed(StatusCode::kAnaTransition);
  }
  if (way->blocks == nullptr && !view_.open(*way)) return failed(StatusCode::kNamespaceNotReady);
  request.progress.way = way;
  ++way->users;
  return {};
}

void IoExecution::release(Request& request) {
  if (request.progress.way != nullptr) --request.progress.way->users;
  request.progress.way = nullptr;
}

void IoExecution::wait(Request& request) {
  request.progress.waiting = true;
  waiting_.push(request);
  ++waiting_count_;
}

bool IoExecution::take_exclusion(Request& request) {
  NamespaceWay& way = *request.progress.way;
  if (way.exclusive == nullptr && way.subject->exclusion().take(way.member)) way.exclusive = &request;
  if (way.exclusive != &request || way.writes > 0 || !way.subject->exclusion().granted()) return false;
  request.progress.exclusive = true;
  return true;
}

bool IoExecution::may_run(Request& request) {
  const Request::Progress& progress = request.progress;
  if (progress.exclusive) return true;
  if (progress.fused != nullptr) return take_exclusion(request);
  return !progress.row->changes_blocks() || progress.way == nullptr ||
         !progress.way->subject->exclusion().wanted();
}

void IoExecution::run(Request& request) {
  if (queue_.disconnected) return queue_.end(request, failed(StatusCode::kAbortedQueueDeleted));
  if (!may_run(request)) return wait(request);
  if (const auto status = request.progress.row->execute(queue_, request)) queue_.end(request, *status);
}

void IoExecution::settle(Request& request, bool successful) {
  if (scratch_user_ == &request) scratch_user_ = nullptr;
  NamespaceWay* const way = request.progress.way;
  // A successful first half hands it over.
  const bool goes_on = successful && request.progress.fused != nullptr;
  if (way != nullptr && way->exclusive == &request && !goes_on) {
    way->exclusive = nullptr;
    way->subject->exclusion().give_back();
  }
  if (way != nullptr && request.progress.row != nullptr) count(request, *way, successful);
}

void IoExecution::count(const Request& request, NamespaceWay& way, bool successful) {
  NamespaceCounters& counters = *way.counters;
  if (!successful) {
    // What is aborted because its queue goes is no error of the namespace.
    if (request.progress.status.code != StatusCode::kAbortedQueueDeleted)
      counters.add(NamespaceCounter::kErrors);
    return;
  }
  if (request.progress.row->counted == CommandRow::Counted::kNot) return;
  const bool read = request.progress.row->counted == CommandRow::Counted::kRead;
  const uint64_t bytes = uint64_t{request.progress.blocks} * way.subject->properties().block_bytes;
  counters_->add(read ? IoCounter::kReads : IoCounter::kWrites);
  counters_->add(read ? IoCounter::kReadUnits : IoCounter::kWrittenUnits, bytes / 512);
  counters.add(read ? NamespaceCounter::kReads : NamespaceCounter::kWrites);
  counters.add(read ? NamespaceCounter::kBytesRead : NamespaceCounter::kBytesWritten, bytes);
  if (!counters.measures()) [[likely]]
    return;
  Instant (*const clock)() = queue_.options.clock;
  counters.record(read, (clock != nullptr ? clock() : queue_.now) - request.progress.received);
}

void IoExecution::hand_over(Request& first, Request& second) {
  UROCE_ASSERT(first.progress.way == second.progress.way && first.progress.way->exclusive == &first);
  first.progress.way->exclusive = &second;
  second.progress.exclusive = true;
  run(second);
}

bool IoExecution::submit(Request& request, NamespaceWay& way, block::Request blocks) {
  blocks.user = &request;
  if (!way.blocks->submit(blocks)) return false;
  ++request.progress.steps;
  ++way.under_way;
  if (request.progress.row->changes_blocks()) ++way.writes;
  return true;
}

std::span<std::byte> IoExecution::borrow_scratch(Request& request) {
  if (scratch_user_ != nullptr && scratch_user_ != &request) return {};
  scratch_user_ = &request;
  return {scratch_.get(), kScratchBytes};
}

void IoExecution::block_request_ended(NamespaceWay& way, Request& request, block::Outcome outcome) {
  Request::Progress& progress = request.progress;
  const bool write = progress.row->changes_blocks();
  --way.under_way;
  if (write) --way.writes;
  if (progress.way != &way) --way.users;  // of a Flush of all namespaces, which are counted one by one
  if (outcome != block::Outcome::kDone) {
    if (progress.status.ok()) progress.status = status_of(outcome, write);
    if (outcome == block::Outcome::kMediaError) counters_->add(IoCounter::kMediaErrors);
  }
  if (--progress.steps > 0 || progress.waiting) return;
  if (!progress.status.ok() || progress.row->go_on == nullptr) return queue_.end(request, progress.status);
  if (const auto status = progress.row->go_on(queue_, request)) queue_.end(request, *status);
}

void IoExecution::poll(NamespaceWay& way) {
  if (way.under_way > 0) {
    std::array<block::Ended, kEndedMax> ended;
    const size_t count = way.blocks->poll(ended);
    for (size_t i = 0; i < count; ++i)
      block_request_ended(way, *static_cast<Request*>(ended[i].user), ended[i].outcome);
  }
  if (way.writes == 0 && way.subject->exclusion().wanted() && way.exclusive == nullptr)
    way.subject->exclusion().answer(way.member);
}

void IoExecution::poll() {
  view_.refresh();
  // An index: a command that goes on may open another way.
  for (size_t i = 0; i < view_.opened().size(); ++i) poll(*view_.opened()[i]);
  for (size_t left = std::exchange(waiting_count_, 0); left > 0; --left) {
    Request& request = *waiting_.pop();
    request.progress.waiting = false;
    run(request);
  }
}

void IoExecution::abort_waiting() {
  for (waiting_count_ = 0; Request* const request = waiting_.pop();) {
    request->progress.waiting = false;
    const CommandStatus aborted = failed(StatusCode::kAbortedQueueDeleted);
    if (request->progress.steps == 0)
      queue_.end(*request, aborted);
    else
      request->progress.status = aborted;
  }
}

}  // namespace uroce::nvmf
