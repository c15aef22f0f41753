#include "service/management.h"

#include <concepts>
#include <variant>

#include "wire/ip_cm.h"

namespace uroce::service {
namespace {

/// With rdma_cm a host reaches itself at a loopback address as well.
template <size_t N>
Gid address_meant(const wire::Packet& packet, const wire::PrivateData<N>& data) {
  if (packet.source != packet.destination) return packet.destination;
  const auto header = wire::parse_ip_cm(data);
  return header && header->destination.is_loopback() ? header->destination : packet.destination;
}

template <typename Message>
Management from(const wire::Packet& packet, const Message& message) {
  if constexpr (std::same_as<Message, wire::CmReq>) {
    return {.request = true,
            .sender = message.local,
            .queue_pair = message.qp,
            .service = message.service,
            .meant = address_meant(packet, message.private_data)};
  } else if constexpr (std::same_as<Message, wire::CmSidrReq>) {
    return {.request = true,
            .sender = message.request,
            .service = message.service,
            .meant = address_meant(packet, message.private_data)};
  } else if constexpr (std::same_as<Message, wire::CmSidrRep>) {
    return {.receiver = message.request, .queue_pair = message.qp};
  } else if constexpr (std::same_as<Message, wire::CmRep>) {
    return {.sender = message.local, .receiver = message.remote, .queue_pair = message.qp};
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
