// How requests end, and what a queue does about it.

#include <utility>

#include "base/values/contract.h"
#include "nvmf/queue/command_row.h"
#include "nvmf/queue/io_execution.h"
#include "nvmf/queue/queue_state.h"

namespace uroce::nvmf {

QueueState::QueueState(Target& of, QueueOptions with) : target(of), options(std::move(with)) {}

QueueState::~QueueState() = default;

void QueueState::settle(Request& request, CommandStatus status) {
  Request::Progress& progress = request.progress;
  UROCE_ASSERT(progress.state == Request::Progress::State::kReceived ||
               progress.state == Request::Progress::State::kExecuting);
  UROCE_ASSERT(progress.steps == 0 && !progress.waiting);
  progress.state = Request::Progress::State::kEnded;
  progress.status = status;
  request.completion.cid = request.command.cid;
  request.completion.status = status.field();
  if (!status.ok()) record_error(request);
  if (io != nullptr) io->settle(request, status.ok());
}

void QueueState::end(Request& request, CommandStatus status) {
  settle(request, status);
  ended.push(request);
  tell_other_half(request, status.ok());
}

void QueueState::abandon(Request& request) {
  settle(request, failed(StatusCode::kAbortedQueueDeleted));
  tell_other_half(request, false);
}

void QueueState::tell_other_half(Request& request, bool successful) {
  if (fused_first == &request) {
    fused_first = nullptr;
    fused_first_failed = true;
  }
  Request* const other = std::exchange(request.progress.fused, nullptr);
  if (other == nullptr) return;
  other->progress.fused = nullptr;
  if (successful) return io->hand_over(request, *other);
  const CommandStatus status = failed(StatusCode::kAbortedFailedFused);
  if (other->progress.state == Request::Progress::State::kExecuting)
    end(*other, status);
  else
    other->progress.status = status;  // when the transport comes back with it
}

void QueueState::record_error(const Request& request) {
  // What is aborted because its queue goes is no mistake of the host's.
  if (controller == nullptr || request.progress.status.code == StatusCode::kAbortedQueueDeleted) return;
  controller->errors().record({.sq_id = qid,
                               .cid = request.command.cid,
                               .status = request.completion.status,
                               .parameter = request.progress.parameter,
                               .lba = request.progress.block,
                               .nsid = request.command.opcode == kFabricsOpcode ? 0 : request.command.nsid,
                               .transport = options.transport.type});
}

void QueueState::end_event_requests(StatusCode code) {
  for (Request*& resting : event_requests)
    if (Request* const request = std::exchange(resting, nullptr)) end(*request, failed(code));
}

}  // namespace uroce::nvmf
