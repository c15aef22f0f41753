// What comes to queue pair 1 and which program it is for.
#include <algorithm>

#include "service/program_switch.h"

namespace uroce::service {

bool ProgramSwitch::deliver_management(const Arrival& arrival) {
  const auto message = management_of(arrival.packet);
  if (!message) return false;
  if (message->request) return deliver_request(arrival, *message);
  Attachment* program = owners_.of(host::owner_of_comm_id(message->receiver.value));
  if (message->receiver == wire::CommId{}) {
    // The peer gives up a request to which it has heard no answer.
    held_.cancel(arrival.packet.source, message->sender);
    program = find(routes_.find(arrival.packet.source, message->sender, now_));
  }
  if (program == nullptr) return false;
  program->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
  return true;
}

bool ProgramSwitch::deliver_request(const Arrival& arrival, const Management& message) {
  const Gid& source = arrival.packet.source;
  if (take_refused(source, message.sender)) return false;
  Attachment* program = listener_of(message.service, message.meant);
  // It may have ceased to listen since the peer asked first.
  if (program == nullptr) program = find(routes_.find(source, message.sender, now_));
  if (program != nullptr) {
    routes_.note(source, message.sender, program->program(), now_);
    program->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
    return true;
  }
  const bool local = options_.device.gids.owns(source);
  const Attachment* const sender = local ? owners_.of(host::owner_of_comm_id(message.sender.value)) : nullptr;
  return held_.hold({.source = source,
                     .program = sender == nullptr ? 0 : sender->program(),
                     .sender = message.sender,
                     .service = message.service,
                     .meant = message.meant,
                     .until = now_ + HeldRequests::kHeldFor,
                     .has_icrc = arrival.has_icrc,
                     .from = arrival.sender},
                    arrival.frame);
}

Attachment* ProgramSwitch::listener_of(wire::ServiceId service, const Gid& meant) const {
  constexpr uint64_t kLast = 0xFFFF'FFFF;  // the upper half is a port space
  if (service.value > kLast) return nullptr;
  const auto owner = ports_.listener(static_cast<uint16_t>(service.value >> 16),
                                     static_cast<uint16_t>(service.value), meant);
  return owner ? find(*owner) : nullptr;
}

/// Programs that have begun to listen get what waited for them, and what has waited long enough goes to the
/// device's own communication manager, which refuses it: through the device, as if it came from outside.
void ProgramSwitch::release_held(port::TxBatch& batch) {
  held_.take_if([&](const HeldRequests::Request& request) {
    if (Attachment* const program = listener_of(request.service, request.meant)) {
      routes_.note(request.source, request.sender, program->program(), now_);
      program->send(request.frame(), request.has_icrc, request.from, turn_);
      return true;
    }
    return now_ >= request.until && refuse(request, batch);
  });
}

/// False: there is no room now.
bool ProgramSwitch::refuse(const HeldRequests::Request& request, port::TxBatch& batch) {
  port::TxFrame* const frame = batch.next();
  if (frame == nullptr || frame->capacity < request.length) return frame != nullptr;
  // Those that were lost on the way back are forgotten some time.
  if (refused_.size() == HeldRequests::kMax) refused_.erase(refused_.begin());
  refused_.push_back({request.source, request.sender});
  std::ranges::copy(request.frame(), frame->data);
  frame->length = static_cast<uint32_t>(request.length);
  frame->has_icrc = request.has_icrc;
  frame->to_self = true;
  frame->to_group = frame->on_host = false;
  batch.commit();
  return true;
}

bool ProgramSwitch::take_refused(const Gid& source, wire::CommId sender) {
  return std::erase_if(refused_, [&](const Refused& refused) {
           return refused.source == source && refused.sender == sender;
         }) > 0;
}

}  // namespace uroce::service
