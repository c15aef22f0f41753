// Decision: a transport calls a concrete Queue, and the data phase lies between receive() and execute().
// Tests and fuzzer are transports like any other.
#include "nvmf/queue/queue.h"

#include <utility>

#include "base/values/contract.h"
#include "nvmf/queue/command_table.h"
#include "nvmf/queue/io_execution.h"
#include "nvmf/queue/queue_state.h"
#include "nvmf/subsystem/subsystem.h"

namespace uroce::nvmf {

namespace {

using State = Request::Progress::State;

/// A connection without Connect is given up.
constexpr Duration kConnectMax = seconds(120);

constexpr uint16_t kFlagsAt = 1;
constexpr uint16_t kPsdtBit = 6;

/// The second half of a fused pair comes right after the first (NVMe 1.4, section 6.2).
CommandStatus pair_up(QueueState& state, Request& request) {
  Request* const first = std::exchange(state.fused_first, nullptr);
  const bool first_failed = std::exchange(state.fused_first_failed, false);
  if (request.command.fuse() == Command::Fuse::kSecond) {
    if (first == nullptr)
      return failed(first_failed ? StatusCode::kAbortedFailedFused : StatusCode::kAbortedMissingFused);
    first->progress.fused = &request;
    request.progress.fused = first;
    return {};
  }
  if (first != nullptr) {
    const CommandStatus alone = failed(StatusCode::kAbortedMissingFused);
    if (first->progress.state == State::kExecuting)
      state.end(*first, alone);
    else
      first->progress.status = alone;
    state.fused_first_failed = false;
  }
  if (request.command.fuse() == Command::Fuse::kFirst) state.fused_first = &request;
  if (request.command.fuse() == Command::Fuse::kReserved) return invalid_field(request, kFlagsAt);
  return {};
}

CommandStatus find_fabrics_row(QueueState& state, Request& request) {
  const CommandRow* const row = find_command(fabrics_commands(), fabrics_type(request.command));
  if (row == nullptr) return refused(StatusCode::kInvalidOpcode);
  const bool connect = row->code == static_cast<uint8_t>(FabricsType::kConnect);
  if (connect != (state.controller == nullptr)) return refused(StatusCode::kCommandSequenceError);
  request.progress.row = row;
  return {};
}

CommandStatus find_row(QueueState& state, Request& request) {
  if (request.command.opcode == kFabricsOpcode) return find_fabrics_row(state, request);
  if (state.controller == nullptr) return refused(StatusCode::kCommandSequenceError);
  const bool admin = state.is_admin();
  const CommandRow* const row =
      find_command(admin ? admin_commands() : io_commands(), request.command.opcode);
  if (row == nullptr || (state.controller->subsystem().is_discovery() && !row->discovery))
    return refused(StatusCode::kInvalidOpcode);
  // Hosts that only look need not keep it alive.
  if (admin && state.controller->subsystem().is_discovery()) state.controller->keep_alive(state.now);
  if (admin && !state.controller->ready()) return refused(StatusCode::kCommandSequenceError);
  request.progress.row = row;
  return {};
}

/// Fields that all commands have.
CommandStatus check_flags(Request& request) {
  const CommandRow& row = *request.progress.row;
  const Command::Fuse fuse = request.command.fuse();
  if ((fuse == Command::Fuse::kFirst && !row.fused_first) ||
      (fuse == Command::Fuse::kSecond && !row.fused_second))
    return invalid_field(request, kFlagsAt);
  // Fabrics commands have no PSDT; and without data it is not looked at.
  if (request.command.opcode != kFabricsOpcode && row.direction != Direction::kNone &&
      request.command.psdt() != 1)
    return invalid_field(request, kFlagsAt, kPsdtBit);
  return {};
}

CommandStatus same_range(const Request& second) {
  const Request& first = *second.progress.fused;
  const bool same = first.command.nsid == second.command.nsid && first.progress.way == second.progress.way &&
                    first.progress.block == second.progress.block &&
                    first.progress.blocks == second.progress.blocks;
  return same ? CommandStatus{} : refused(StatusCode::kInvalidField);
}

CommandStatus admit(QueueState& state, Request& request) {
  if (state.life_over()) return failed(StatusCode::kAbortedQueueDeleted);
  if (const CommandStatus status = pair_up(state, request); !status.ok()) return status;
  if (const CommandStatus status = find_row(state, request); !status.ok()) return status;
  if (const CommandStatus status = check_flags(request); !status.ok()) return status;
  const CommandRow& row = *request.progress.row;
  request.direction = row.direction;
  if (row.check == nullptr) return {};
  const CommandStatus status = row.check(state, request);
  if (!status.ok() || request.progress.fused == nullptr) return status;
  return same_range(request);
}

/// Whether a fused command waits for its other half; a first half whose other has not come yet does.
bool rests(const QueueState& state, const Request& request) {
  if (state.fused_first == &request) return true;
  const Request* const other = request.progress.fused;
  return other != nullptr && other->progress.state != State::kExecuting;
}

void tell_events(QueueState& state) {
  if (!state.controller->events().waiting()) return;
  for (Request*& resting : state.event_requests) {
    if (resting == nullptr) continue;
    const auto event = state.controller->events().take();
    if (!event) return;
    Request& request = *std::exchange(resting, nullptr);
    request.completion.result = *event;
    state.end(request, {});
  }
}

/// A controller that is reset or shut down waits for its I/O queues.
void leave_if_drained(QueueState& state) {
  if (state.io == nullptr || !state.disconnected || state.held > 0 || state.left) return;
  state.left = true;
  state.controller->remove_io_queue(state.qid);
}

}  // namespace

Queue::Queue(Target& target, QueueOptions options)
    : state_(std::make_unique<QueueState>(target, std::move(options))) {}

Queue::~Queue() {
  UROCE_ASSERT(drained());
  state_->io.reset();  // it needs the controller
  if (state_->controller == nullptr) return;
  if (state_->qid == 0)
    state_->controller->end();
  else if (!std::exchange(state_->left, true))
    state_->controller->remove_io_queue(state_->qid);
}

void Queue::receive(Request& request, Instant now) {
  UROCE_ASSERT(request.progress.state == State::kFree);
  state_->now = now;
  ++state_->held;
  request.progress = {};
  request.progress.state = State::kReceived;
  request.progress.received = now;
  request.completion = {};
  request.direction = Direction::kNone;
  request.data_bytes = 0;
  request.in_place = false;
  request.data = {};
  if (const CommandStatus status = admit(*state_, request); !status.ok()) state_->end(request, status);
  request.ended = request.progress.state == State::kEnded;
  if (request.ended) request.direction = Direction::kNone;
}

void Queue::execute(Request& request, Instant now) {
  UROCE_ASSERT(request.progress.state == State::kReceived);
  QueueState& state = *state_;
  state.now = now;
  request.progress.state = State::kExecuting;
  if (state.disconnected) return state.end(request, failed(StatusCode::kAbortedQueueDeleted));
  if (!request.progress.status.ok()) return state.end(request, request.progress.status);
  if (rests(state, request)) return;
  if (state.io != nullptr && request.command.opcode != kFabricsOpcode) {
    const bool second = request.progress.fused != nullptr && request.command.fuse() == Command::Fuse::kSecond;
    return state.io->run(second ? *request.progress.fused : request);
  }
  if (const auto status = request.progress.row->execute(state, request)) state.end(request, *status);
}

void Queue::fail(Request& request, CommandStatus status) {
  UROCE_ASSERT(request.progress.state == State::kReceived && !status.ok());
  request.progress.state = State::kExecuting;
  state_->end(request, request.progress.status.ok() ? status : request.progress.status);
}

size_t Queue::poll(Instant now, std::span<Request*> ended) {
  QueueState& state = *state_;
  state.now = now;
  if (!state.opened_at) state.opened_at = now;
  if (state.controller == nullptr && now - *state.opened_at > kConnectMax) state.given_up = true;
  if (state.io != nullptr) state.io->poll();
  if (state.is_admin() && !state.disconnected) {
    state.controller->watch(now);
    tell_events(state);
  }
  size_t count = 0;
  for (; count < ended.size() && !state.ended.empty(); ++count) {
    Request& request = *state.ended.pop();
    request.progress.state = State::kHandedBack;
    if (state.entries > 0 && state.flow_control) {
      state.sq_head = static_cast<uint16_t>((state.sq_head + 1) % state.entries);
      request.completion.sq_head = state.sq_head;
    }
    ended[count] = &request;
  }
  return count;
}

void Queue::release(Request& request) {
  QueueState& state = *state_;
  if (request.progress.state == State::kReceived) {
    UROCE_ASSERT(state.disconnected);
    state.abandon(request);
  } else {
    UROCE_ASSERT(request.progress.state == State::kHandedBack);
  }
  if (state.io != nullptr) state.io->release(request);
  request.progress.state = State::kFree;
  --state.held;
  leave_if_drained(state);
}

bool Queue::ending() const {
  const QueueState& state = *state_;
  if (state.given_up) return true;
  // The answer to Disconnect goes before.
  if (state.disconnect_asked) return state.ended.empty();
  return state.life_over();
}

void Queue::disconnected(Instant now) {
  QueueState& state = *state_;
  state.now = now;
  if (state.disconnected) return;
  state.disconnected = true;
  if (state.is_admin()) state.controller->end();
  state.end_event_requests(StatusCode::kAbortedQueueDeleted);
  if (state.fused_first != nullptr && state.fused_first->progress.state == State::kExecuting)
    state.end(*state.fused_first, failed(StatusCode::kAbortedQueueDeleted));
  if (state.io != nullptr) state.io->abort_waiting();
  leave_if_drained(state);
}

bool Queue::drained() const { return state_->held == 0; }

std::optional<ConnectOutcome> Queue::take_connect_outcome() {
  return std::exchange(state_->connect_outcome, std::nullopt);
}

bool Queue::is_connected() const { return state_->controller != nullptr; }

bool Queue::is_discovery() const { return is_connected() && state_->controller->subsystem().is_discovery(); }

std::optional<uint16_t> Queue::qid() const {
  if (state_->controller == nullptr) return std::nullopt;
  return state_->qid;
}

std::optional<uint16_t> Queue::controller_id() const {
  if (state_->controller == nullptr) return std::nullopt;
  return state_->controller->identity().id;
}

}  // namespace uroce::nvmf
