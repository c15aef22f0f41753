#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>

#include "nvmf/queue/queue_options.h"
#include "nvmf/queue/request_list.h"
#include "nvmf/subsystem/controller.h"
#include "nvmf/subsystem/target.h"

namespace uroce::nvmf {

class IoExecution;

/// A queue from the inside: what the commands see of it.
struct QueueState {
  QueueState(Target& of, QueueOptions with);
  ~QueueState();

  Target& target;
  const QueueOptions options;
  Instant now{};  // of the call that is being made

  std::optional<ConnectOutcome> connect_outcome;  // not asked for yet

  // Since Connect.
  std::shared_ptr<Controller> controller;
  uint16_t qid = 0;
  uint32_t entries = 0;
  bool flow_control = true;
  uint32_t io_life = 0;             // of the controller, when an I/O queue was added
  std::unique_ptr<IoExecution> io;  // of an I/O queue
  uint16_t sq_head = 0;

  bool disconnect_asked = false;  // by the command: after its completion the queue ends
  bool given_up = false;          // Connect did not come in time
  bool disconnected = false;
  bool left = false;  // the controller has been told that the I/O queue is gone
  std::optional<Instant> opened_at;

  uint32_t held = 0;  // requests between receive() and release()
  RequestList ended;
  /// Asynchronous Event Requests that rest.
  std::array<Request*, Controller::kAsyncEventsMax> event_requests{};

  // Fused pairs.
  Request* fused_first = nullptr;   // was received last, and its other half has to come next
  bool fused_first_failed = false;  // the same, but it has ended

  /// The request is complete, whatever it was doing; also tells its other half. Block requests of it have
  /// ended.
  void end(Request& request, CommandStatus status);
  /// Ends a request that the transport lets go of: it is not handed back.
  void abandon(Request& request);
  void end_event_requests(StatusCode code);

  [[nodiscard]] bool is_admin() const { return controller != nullptr && qid == 0; }
  [[nodiscard]] bool life_over() const {
    return disconnected || disconnect_asked ||
           (controller != nullptr && (controller->over() || (qid != 0 && controller->io_life() != io_life)));
  }

 private:
  void settle(Request& request, CommandStatus status);
  void tell_other_half(Request& request, bool successful);
  void record_error(const Request& request);
};

/// The byte of every command at which the number of its namespace begins.
inline constexpr uint16_t kNsidAt = 4;

/// The field at `byte` (and bit) of the command is wrong: for the error log.
inline CommandStatus invalid_field(Request& request, uint16_t byte, uint16_t bit = 0,
                                   StatusCode code = StatusCode::kInvalidField) {
  request.progress.parameter = static_cast<uint16_t>(byte | bit << 8);
  return refused(code);
}

}  // namespace uroce::nvmf
