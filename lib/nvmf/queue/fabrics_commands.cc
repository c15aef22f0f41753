#include "nvmf/queue/fabrics_commands.h"

#include "nvmf/queue/queue_state.h"

namespace uroce::nvmf {

namespace {

constexpr uint16_t kAttributesAt = 40, kPropertyAt = 44;

bool eight_bytes(const Command& command) { return (command.dword10 & 7) == 1; }

}  // namespace

std::optional<CommandStatus> disconnect(QueueState& queue, Request& request) {
  const auto record_format = static_cast<uint16_t>(request.command.dword10);
  if (record_format != 0) return refused(StatusCode::kConnectIncompatibleFormat);
  if (queue.qid == 0) return refused(StatusCode::kDisconnectInvalidQueueType);
  queue.disconnect_asked = true;
  return CommandStatus{};
}

std::optional<CommandStatus> get_property(QueueState& queue, Request& request) {
  const Command& command = request.command;
  if (queue.qid != 0) return refused(StatusCode::kInvalidField);
  if ((command.dword10 & 7) > 1) return invalid_field(request, kAttributesAt);
  const auto value = queue.controller->property(command.dword11, eight_bytes(command));
  if (!value) return invalid_field(request, kPropertyAt);
  request.completion.result = *value;
  return CommandStatus{};
}

std::optional<CommandStatus> set_property(QueueState& queue, Request& request) {
  const Command& command = request.command;
  if (queue.qid != 0) return refused(StatusCode::kInvalidField);
  if ((command.dword10 & 7) != 0) return invalid_field(request, kAttributesAt);
  if (command.dword11 != static_cast<uint32_t>(Property::kConfiguration))
    return invalid_field(request, kPropertyAt);
  const CommandStatus status = queue.controller->configure(command.dword12, queue.now);
  if (!queue.controller->ready()) queue.end_event_requests(StatusCode::kAbortRequested);
  return status;
}

}  // namespace uroce::nvmf
