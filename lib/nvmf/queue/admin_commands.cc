// The admin commands that need no page of their own.
#include "nvmf/queue/admin_commands.h"

#include <algorithm>
#include <utility>

#include "nvmf/queue/queue_state.h"

namespace uroce::nvmf {

std::optional<CommandStatus> async_event_request(QueueState& queue, Request& request) {
  const auto free = std::ranges::find(queue.event_requests, nullptr);
  if (free == queue.event_requests.end()) return refused(StatusCode::kAsyncEventLimitExceeded);
  *free = &request;
  return std::nullopt;
}

std::optional<CommandStatus> keep_alive(QueueState& queue, Request&) {
  queue.controller->keep_alive(queue.now);
  return CommandStatus{};
}

std::optional<CommandStatus> abort_command(QueueState& queue, Request& request) {
  // What rests may be aborted. Block requests can't be called back, and end soon.
  constexpr uint64_t kAborted = 0, kNotAborted = 1;
  const auto sq_id = static_cast<uint16_t>(request.command.dword10);
  const auto cid = static_cast<uint16_t>(request.command.dword10 >> 16);
  request.completion.result = kNotAborted;
  if (sq_id != queue.qid) return CommandStatus{};
  for (Request*& resting : queue.event_requests) {
    if (resting == nullptr || resting->command.cid != cid) continue;
    queue.end(*std::exchange(resting, nullptr), failed(StatusCode::kAbortRequested));
    request.completion.result = kAborted;
    return CommandStatus{};
  }
  return CommandStatus{};
}

}  // namespace uroce::nvmf
