#include "apps/decode/managed_connections.h"

#include <fmt/format.h>

#include <variant>

namespace uroce::decode {
namespace {

bool is_path_mtu(uint8_t code) {
  return code >= static_cast<uint8_t>(PathMtu::k256) && code <= static_cast<uint8_t>(PathMtu::k4096);
}

void say(Inspected& packet, Rule rule, std::string what) {
  packet.findings.push_back({rule, 0, std::move(what)});
}

}  // namespace

std::optional<ManagedConnections::Established> ManagedConnections::receive(Inspected& packet) {
  if (!packet.cm->reserved_is_zero) say(packet, Rule::kCmFields, "reserved bits are not 0");
  return std::visit([&](const auto& message) { return on(message, packet); }, packet.cm->mad.message);
}

ManagedConnections::Connection* ManagedConnections::find(const Gid& active, wire::CommId number,
                                                         const Gid& passive) {
  const auto found = connections_.find({active, number});
  return found == connections_.end() || found->second.passive != passive ? nullptr : &found->second;
}

template <typename Message>
ManagedConnections::Connection* ManagedConnections::find_either(const Message& message,
                                                                const Inspected& packet) {
  if (Connection* const own = find(packet.source, message.local, packet.destination)) {
    if (!own->rep || own->rep->local == message.remote) return own;
  }
  Connection* const others = find(packet.destination, message.remote, packet.source);
  return others != nullptr && (!others->rep || others->rep->local == message.local) ? others : nullptr;
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmReq& message,
                                                                      Inspected& packet) {
  if (!is_path_mtu(message.path_mtu))
    say(packet, Rule::kCmFields, fmt::format("path MTU {} of the REQ", message.path_mtu));
  if (message.primary.local_gid != packet.source || message.primary.remote_gid != packet.destination)
    say(packet, Rule::kCmFields, "the REQ names other addresses than those it goes between");
  if (connections_.size() == kConnectionsMax) connections_.erase(connections_.begin());
  Connection* const known = find(packet.source, message.local, packet.destination);
  if (known != nullptr && known->transaction == packet.cm->mad.transaction_id)
    return std::nullopt;  // once more
  connections_.insert_or_assign(Key{packet.source, message.local},
                                Connection{.req = message,
                                           .transaction = packet.cm->mad.transaction_id,
                                           .active = packet.source,
                                           .passive = packet.destination});
  return std::nullopt;
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmRep& message,
                                                                      Inspected& packet) {
  Connection* const of = find(packet.destination, message.remote, packet.source);
  if (of == nullptr) {
    if (find(packet.source, message.remote, packet.destination) != nullptr)
      say(packet, Rule::kCmHandshake, "the REP comes from the end that sent the REQ");
    return std::nullopt;
  }
  if (packet.cm->mad.transaction_id != of->transaction)
    say(packet, Rule::kCmHandshake,
        fmt::format("the REP is of transaction 0x{:x}, its REQ of 0x{:x}", packet.cm->mad.transaction_id,
                    of->transaction));
  if (of->rejected) say(packet, Rule::kCmHandshake, "a REP behind the REJ of the same REQ");
  const bool again = of->rep.has_value();
  if (again && of->rep->local == message.local) return std::nullopt;
  of->rep = message;
  return Established{
      .active = {of->active, of->req.qp, of->req.starting_psn},
      .passive = {of->passive, message.qp, message.starting_psn},
      .mtu = is_path_mtu(of->req.path_mtu) ? path_mtu_bytes(static_cast<PathMtu>(of->req.path_mtu)) : 0};
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmRtu& message,
                                                                      Inspected& packet) {
  const Connection* const of = find(packet.source, message.local, packet.destination);
  if (of == nullptr) {
    const Connection* const reverse = find(packet.destination, message.remote, packet.source);
    if (reverse != nullptr && reverse->rep && reverse->rep->local == message.local)
      say(packet, Rule::kCmHandshake, "the RTU comes from the end that sent the REP");
    return std::nullopt;
  }
  if (of->rep && of->rep->local != message.remote)
    say(packet, Rule::kCmHandshake,
        fmt::format("the RTU is to number 0x{:08x}, the REP from 0x{:08x}", message.remote.value,
                    of->rep->local.value));
  if (of->rep && packet.cm->mad.transaction_id != of->transaction)
    say(packet, Rule::kCmHandshake,
        fmt::format("the RTU is of transaction 0x{:x}, its REQ of 0x{:x}", packet.cm->mad.transaction_id,
                    of->transaction));
  return std::nullopt;
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmRej& message,
                                                                      Inspected& packet) {
  Connection* const of = find(packet.destination, message.remote, packet.source);
  if (of == nullptr || message.answered != wire::CmAnswered::kReq || of->rep) return std::nullopt;
  of->rejected = true;
  return std::nullopt;
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmDreq& message,
                                                                      Inspected& packet) {
  Connection* const of = find_either(message, packet);
  if (of == nullptr) return std::nullopt;
  const bool from_active = of->active == packet.source && of->req.local == message.local;
  if (from_active && !of->rep) return std::nullopt;
  const QpNumber its = from_active ? of->rep->qp : of->req.qp;
  if (message.remote_qp != its)
    say(packet, Rule::kCmEnd,
        fmt::format("the DREQ names queue pair 0x{:06x}, and the connection's is 0x{:06x}",
                    message.remote_qp.value, its.value));
  of->hanging_up = packet.cm->mad.transaction_id;
  of->hangs_up = packet.source;
  return std::nullopt;
}

std::optional<ManagedConnections::Established> ManagedConnections::on(const wire::CmDrep& message,
                                                                      Inspected& packet) {
  const Connection* const of = find_either(message, packet);
  // Both may hang up at once, each with a transaction of its own.
  if (of == nullptr || !of->hanging_up || of->hangs_up != packet.destination) return std::nullopt;
  if (*of->hanging_up != packet.cm->mad.transaction_id)
    say(packet, Rule::kCmEnd,
        fmt::format("the DREP is of transaction 0x{:x}, the DREQ of 0x{:x}", packet.cm->mad.transaction_id,
                    *of->hanging_up));
  return std::nullopt;
}

}  // namespace uroce::decode
