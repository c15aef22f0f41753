// What comes to queue pair 1 and which program it is for.
//
// Decision: messages to queue pair 1 are routed before their ICRC is verified. The program that gets one
// verifies it.
#include <algorithm>

#include "engine/poller/gsi.h"
#include "net/derived_mac.h"
#include "service/program_switch.h"
#include "wire/frame.h"
#include "wire/vlan.h"

namespace uroce::service {
namespace {

constexpr uint32_t kFlowLabelMask = 0xF'FFFF;

}  // namespace

bool ProgramSwitch::deliver_management(const Arrival& arrival) {
  const auto message = management_of(arrival.packet);
  if (!message) return false;
  if (message->request) return deliver_request(arrival, *message);
  ClientSession* program = owners_.of(host::owner_of_comm_id(message->receiver.value));
  if (message->receiver == wire::CommId{}) {
    // The peer gives up a request to which it has heard no answer.
    held_.cancel(arrival.packet.source, message->sender);
    program = find(routes_.find(arrival.packet.source, message->sender, now_));
  }
  if (program == nullptr) {
    // A DREP, or a DREQ that the device's own communication manager answers.
    left_.answered(message->receiver, message->sender, arrival.packet.source);
    return false;
  }
  program->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
  return true;
}

bool ProgramSwitch::deliver_request(const Arrival& arrival, const Management& message) {
  const Gid& source = arrival.packet.source;
  if (take_refused(source, message.sender)) return false;
  ClientSession* program = listener_of(message.service, message.meant);
  // It may have ceased to listen since the peer asked first.
  if (program == nullptr) program = find(routes_.find(source, message.sender, now_));
  if (program != nullptr) {
    routes_.note(source, message.sender, program->program(), now_);
    program->send(arrival.frame, arrival.has_icrc, arrival.sender, turn_);
    return true;
  }
  const bool local = options_.device.gids.owns(source);
  const ClientSession* const sender =
      local ? owners_.of(host::owner_of_comm_id(message.sender.value)) : nullptr;
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

ClientSession* ProgramSwitch::listener_of(wire::ServiceId service, const Gid& meant) const {
  constexpr uint64_t kLast = 0xFFFF'FFFF;  // the upper half is a port space
  if (service.value > kLast) return nullptr;
  const auto owner = listeners_.find(static_cast<uint16_t>(service.value >> 16),
                                     static_cast<uint16_t>(service.value), meant);
  return owner ? find(*owner) : nullptr;
}

/// Programs that have begun to listen get what waited for them, and what has waited long enough goes to the
/// device's own communication manager, which refuses it: through the device, as if it came from outside.
void ProgramSwitch::release_held(port::TxBatch& batch) {
  held_.take_if([&](const HeldRequests::Request& request) {
    if (ClientSession* const program = listener_of(request.service, request.meant)) {
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

/// Sends DREQs for connections that were left behind, a few in a turn.
void ProgramSwitch::send_disconnects(port::TxBatch& batch) {
  constexpr int kFramesInTurn = 8;
  for (int i = 0; i < kFramesInTurn; ++i) {
    port::TxFrame* const frame = batch.next();
    const host::OpenConnection* const connection = frame != nullptr ? left_.next(now_) : nullptr;
    if (connection == nullptr) return;
    const bool written = write_disconnect(*connection, *frame);
    left_.sent(now_);
    if (!written) continue;
    const std::span<const std::byte> bytes(frame->data, frame->length);
    if (frame->to_self && wire::parse_frame(bytes, packet_).result == wire::ParseResult::kRoce &&
        deliver({.packet = packet_, .frame = bytes, .has_icrc = true}))
      continue;
    batch.commit();
  }
}

bool ProgramSwitch::write_disconnect(const host::OpenConnection& connection, port::TxFrame& frame) {
  const net::GidTable& gids = options_.device.gids;
  const auto place = gids.find(connection.local_address);
  if (!place || net::is_multicast(connection.remote_address)) return false;
  const uint16_t vlan = gids.vlan_of(*place);
  const bool to_self = gids.owns(connection.remote_address, vlan);
  constexpr QpNumber kServices = engine::Gsi::kNumber;
  const wire::FrameTemplate where(wire::Path{
      .source_mac = options_.device.mac,
      .destination_mac = to_self ? options_.device.mac : connection.link,
      .has_vlan = vlan != 0,
      .vlan_tci = vlan != 0 ? wire::make_tci(vlan, connection.service_level) : uint16_t{0},
      .source = connection.local_address,
      .destination = connection.remote_address,
      .traffic_class = connection.traffic_class,
      .hop_limit = connection.hop_limit,
      .udp_source_port =
          wire::udp_source_port(wire::SourcePorts::kFlowLabel, connection.flow_label, kServices, kServices),
      .flow_label = connection.flow_label & kFlowLabelMask});
  wire::Headers headers;
  headers.bth.opcode = wire::Opcode::make(wire::Service::kUd, wire::Operation::kSendOnly);
  headers.bth.destination = kServices;
  headers.bth.psn = next_psn_;
  headers.deth = {.qkey = wire::kGsiQkey, .source = kServices};
  ++next_psn_;
  const std::span<std::byte> buffer(frame.data, frame.capacity);
  wire::write_cm(
      wire::write_headers(buffer, where, headers, wire::kMadBytes),
      {.transaction_id = next_transaction_++,
       .message = wire::CmDreq{
           .local = {connection.local}, .remote = {connection.remote}, .remote_qp = connection.remote_qp}});
  frame.length = wire::finish_frame(buffer, where, headers.bth.opcode, wire::kMadBytes);
  frame.has_icrc = true;
  frame.to_self = to_self;
  frame.to_group = frame.on_host = false;
  return true;
}

std::optional<Duration> ProgramSwitch::time_to_disconnect() const {
  const Instant deadline = left_.deadline();
  return deadline == kNever ? std::nullopt : std::optional(std::max(Duration{}, deadline - now_));
}

}  // namespace uroce::service
