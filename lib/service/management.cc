#include "service/management.h"

#include <concepts>
#include <variant>

#include "cm/connection.h"
#include "cm/request_destination.h"

namespace uroce::service {
namespace {

template <typename Message>
Management from(const wire::Packet& packet, const Message& message) {
  if constexpr (std::same_as<Message, wire::CmReq>) {
    return {.request = true,
            .sender = message.local,
            .queue_pair = message.qp,
            .service = message.service,
            .meant = cm::request_destination(packet.destination, packet.source, message.private_data)};
  } else if constexpr (std::same_as<Message, wire::CmSidrReq>) {
    return {.request = true,
            .sender = message.request,
            .service = message.service,
            .meant = cm::request_destination(packet.destination, packet.source, message.private_data)};
  } else if constexpr (std::same_as<Message, wire::CmSidrRep>) {
    return {.receiver = message.request, .queue_pair = message.qp};
  } else if constexpr (std::same_as<Message, wire::CmRep>) {
    return {.sender = message.local, .receiver = message.remote, .queue_pair = cm::queue_pair_of(message)};
  } else {
    return {.sender = message.local, .receiver = message.remote};
  }
}

}  // namespace

std::optional<Management> management_of(const wire::Packet& packet) {
  if (packet.headers.bth.opcode != wire::Opcode::make(wire::Service::kUd, wire::Operation::kSendOnly))
    return std::nullopt;
  wire::CmMad mad;
  if (wire::parse_cm(packet.payload, mad) != wire::CmParse::kOk) return std::nullopt;
  return std::visit([&](const auto& message) { return from(packet, message); }, mad.message);
}

}  // namespace uroce::service
