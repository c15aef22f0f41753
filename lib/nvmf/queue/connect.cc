// Fabrics Connect: a connection becomes a queue of a controller.
//
// Connect with an empty host NQN succeeds for subsystems with `allow_any_host = true` and for discovery,
// otherwise it is Connect Invalid Host. SPDK's identify and perf send none, and SPDK's and Linux's targets
// accept it. Cost: such hosts cannot be told apart by name; the log shows their address.
#include <algorithm>
#include <cstring>
#include <span>

#include "nvmf/format/data_area.h"
#include "nvmf/format/names.h"
#include "nvmf/queue/fabrics_commands.h"
#include "nvmf/queue/io_execution.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

/// The result says which field it was.
CommandStatus invalid_parameter(Request& request, uint32_t where) {
  request.completion.result = where;
  return refused(StatusCode::kConnectInvalidParameters);
}

/// Text of the field up to its NUL; all of it if there is none.
std::string_view text_in(std::span<const char> field) {
  return {field.data(), static_cast<size_t>(std::find(field.begin(), field.end(), '\0') - field.begin())};
}

/// The bytes of Connect that name host and subsystem.
struct Asked {
  std::shared_ptr<Subsystem> subsystem;
  std::string host_nqn;
  HostId host_id{};
  uint16_t controller_id = 0;
};

CommandStatus read_data(QueueState& queue, Request& request, Asked& asked) {
  ConnectData data;
  copy_out(request.data, &data, sizeof(data));
  queue.connect_outcome = {.host_nqn = std::string(text_in(data.host_nqn)),
                           .subsystem_nqn = std::string(text_in(data.subsystem_nqn))};
  // A host may have no name, where any host is allowed.
  const bool unnamed = data.host_nqn[0] == '\0';
  const auto host = unnamed ? std::string_view() : nqn_in(data.host_nqn);
  if (!host) return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, host_nqn)));
  const auto subsystem = nqn_in(data.subsystem_nqn);
  if (subsystem) asked.subsystem = queue.target.find(*subsystem);
  if (asked.subsystem == nullptr)
    return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, subsystem_nqn)));
  if (!asked.subsystem->allows(*host)) {
    request.completion.result = invalid_in_data(offsetof(ConnectData, host_nqn));
    return refused(StatusCode::kConnectInvalidHost);
  }
  asked.host_nqn = *host;
  std::memcpy(asked.host_id.data(), data.host_id, asked.host_id.size());
  asked.controller_id = data.controller_id;
  return {};
}

CommandStatus become_admin_queue(QueueState& queue, Request& request, const Asked& asked) {
  if (asked.controller_id != kDynamicController)
    return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, controller_id)));
  const ConnectFields fields(request.command);
  queue.controller = asked.subsystem->associate(asked.subsystem, {.host_nqn = asked.host_nqn,
                                                                  .host_id = asked.host_id,
                                                                  .transport = queue.options.transport,
                                                                  .keep_alive_ms = fields.kato_ms,
                                                                  .now = queue.now});
  return queue.controller != nullptr ? CommandStatus{} : failed(StatusCode::kConnectControllerBusy);
}

CommandStatus become_io_queue(QueueState& queue, Request& request, const Asked& asked) {
  const ConnectFields fields(request.command);
  const auto controller = asked.subsystem->find_controller(asked.controller_id);
  if (controller == nullptr || controller->over())
    return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, controller_id)));
  if (controller->identity().host_nqn != asked.host_nqn)
    return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, host_nqn)));
  if (controller->identity().host_id != asked.host_id)
    return invalid_parameter(request, invalid_in_data(offsetof(ConnectData, host_id)));
  if (asked.subsystem->is_discovery())
    return invalid_parameter(request, invalid_in_command(ConnectFields::kQidAt));
  if (fields.sq_size >= controller->identity().transport.io_entries_max)
    return invalid_parameter(request, invalid_in_command(ConnectFields::kSqSizeAt));
  const CommandStatus status = controller->add_io_queue(fields.qid, queue.io_life);
  if (status.code == StatusCode::kConnectInvalidParameters)
    return invalid_parameter(request, invalid_in_command(ConnectFields::kQidAt));
  if (!status.ok()) return status;
  queue.controller = controller;
  queue.qid = fields.qid;
  queue.io = std::make_unique<IoExecution>(queue, *controller);
  return {};
}

}  // namespace

CommandStatus check_connect(QueueState& queue, Request& request) {
  const ConnectFields fields(request.command);
  if (fields.record_format != 0) return refused(StatusCode::kConnectIncompatibleFormat);
  // Two entries at least, one of which is never in use; and no more than the transport agreed on.
  if (fields.sq_size == 0 || fields.sq_size >= queue.options.entries)
    return invalid_parameter(request, invalid_in_command(ConnectFields::kSqSizeAt));
  if (queue.options.qid && *queue.options.qid != fields.qid)
    return invalid_parameter(request, invalid_in_command(ConnectFields::kQidAt));
  if ((fields.attributes & ~(ConnectFields::kDisableFlowControl | ConnectFields::kPriority)) != 0)
    return invalid_parameter(request, invalid_in_command(ConnectFields::kAttributesAt));
  request.data_bytes = sizeof(ConnectData);
  return {};
}

namespace {

CommandStatus become_queue(QueueState& queue, Request& request) {
  const ConnectFields fields(request.command);
  Asked asked;
  if (const CommandStatus status = read_data(queue, request, asked); !status.ok()) return status;
  const CommandStatus status =
      fields.qid == 0 ? become_admin_queue(queue, request, asked) : become_io_queue(queue, request, asked);
  if (!status.ok()) return status;
  queue.connect_outcome->discovery = asked.subsystem->is_discovery();
  queue.entries = fields.sq_size + 1u;
  queue.flow_control = (fields.attributes & ConnectFields::kDisableFlowControl) == 0;
  if (!queue.flow_control) request.completion.sq_head = 0xFFFF;
  request.completion.result = queue.controller->identity().id;
  return {};
}

}  // namespace

std::optional<CommandStatus> connect(QueueState& queue, Request& request) {
  // Two of them may have been received before one was executed.
  if (queue.controller != nullptr) return refused(StatusCode::kCommandSequenceError);
  const CommandStatus status = become_queue(queue, request);
  if (queue.connect_outcome) queue.connect_outcome->status = status;
  return status;
}

}  // namespace uroce::nvmf
