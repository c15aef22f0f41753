// What a program asks for, and what it is answered.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <iterator>

#include "base/values/printable.h"
#include "host/network_namespace.h"
#include "net/derived_mac.h"
#include "service/service.h"
#include "wire/ip_cm.h"

namespace uroce::service {

using host::MessageType;

namespace {

bool is_port_space(uint16_t space) {
  using enum wire::PortSpace;
  constexpr wire::PortSpace kAll[] = {kIpoib, kTcp, kUdp, kIb};
  return std::ranges::find(kAll, static_cast<wire::PortSpace>(space)) != std::end(kAll);
}

}  // namespace

void Service::answer(ClientProcess& program, const Message& request, const Status& status) {
  Message done{.type = MessageType::kDone, .request = request.request};
  if (!status.ok()) {
    done.error = status.error().code;
    host::set_text(done.text, printable(status.error().message));
  }
  post(program, done);
}

void Service::handle(ClientProcess& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  const bool returns = message.number != 0;
  const size_t descriptors = message.type != MessageType::kAttach ? 0 : returns ? 2 : 1;
  const bool may_have_one = message.type == MessageType::kFaultTaken;
  if (datagram.descriptors != descriptors && !(may_have_one && datagram.descriptors == 1))
    return violate(program, "a message comes with other descriptors than belong to it");
  switch (message.type) {
    case MessageType::kList:
      return list(program, message);
    case MessageType::kStatus:
      return report(program, message);
    case MessageType::kFaultAdd:
      return add_fault(program, message);
    case MessageType::kFaultRemove:
      return answer(program, message, remove_fault(program, message));
    case MessageType::kFaultList:
      return list_faults(program, message);
    case MessageType::kWhose:
      return tell_owner(program, message);
    case MessageType::kReload:
      return answer(program, message, reload(program));
    case MessageType::kAttach:
      return attach(program, datagram);
    default:
      if (!program.attached()) return violate(program, "a request before the program is attached");
      if (message.type == MessageType::kFaultTaken) return fault_taken(program, datagram);
      return handle_request(program, message);
  }
}

void Service::handle_request(ClientProcess& program, const Message& message) {
  switch (message.type) {
    case MessageType::kIntroduce:
      if (const Status status = introduce(program, message); !status) answer(program, message, status);
      return;
    case MessageType::kBind:
      return bind(program, message);
    case MessageType::kListen:
      return answer(program, message, listen(program, message));
    case MessageType::kRelease:
      return release(program, message);
    case MessageType::kJoin:
      return answer(program, message, join(program, message));
    case MessageType::kLeave:
      return answer(program, message, leave(program, message));
    case MessageType::kSourceTo:
      return source_to(program, message);
    case MessageType::kResolve:
      return resolve(program, message);
    case MessageType::kFound:
      return found(program, message);
    case MessageType::kConfirm:
      return confirm(program, message);
    default:
      return violate(program, "a message that only the service sends");
  }
}

Status Service::serves(const Message& message) const {
  if (message.version == host::kControlVersion) return {};
  return Error{
      EPROTONOSUPPORT,
      fmt::format("the service speaks version {} of the protocol, the program {}: use both of one uroce",
                  host::kControlVersion, message.version)};
}

void Service::list(ClientProcess& program, const Message& message) {
  const Status status = serves(message);
  for (const auto& device : devices_) {
    if (!status) break;
    Message entry{.type = MessageType::kDevice,
                  .request = message.request,
                  .mtu = device->link().mtu,
                  .up = device->link().up,
                  .interface = device->device().interface(),
                  .network = host::own_network_namespace(),
                  .mac = device->mac()};
    host::set_text(entry.name, device->name());
    host::set_text(entry.text, device->port());
    post(program, entry);
    for (const host::SharedAddress& ours : device->addresses())
      post(program, {.type = MessageType::kAddressAdded,
                     .request = message.request,
                     .vlan = ours.vlan,
                     .prefix_bits = ours.prefix_bits,
                     .address = ours.address});
  }
  answer(program, message, status);
}

void Service::bind(ClientProcess& program, const Message& message) {
  const auto deny = [&](int code, std::string text) {
    answer(program, message, refuse(program, Error{code, std::move(text)}));
  };
  const bool ipv6 = (message.flags & host::kBindIpv6) != 0;
  const bool any = message.address == (ipv6 ? Gid{} : Gid::from_ipv4({}));
  if (!any && message.address.is_ipv4() == ipv6) return deny(EINVAL, "the address is of another family");
  const bool own = any || message.address.is_loopback() || program.device->owns(message.address);
  if (!own) return deny(EADDRNOTAVAIL, "no address of this device");
  if (!is_port_space(message.space)) return deny(EINVAL, "no port space of rdma_cm");
  if (program.bound.contains(message.id)) return deny(EINVAL, "the id is bound");
  const uint32_t quota = configuration_.quotas.ports_per_program;
  if (program.bound.size() >= quota)
    return deny(EDQUOT, fmt::format("a program may bind {} ports (service.ports_per_program)", quota));
  const host::PortRequest request{.space = message.space,
                                  .address = message.address,
                                  .ipv6 = ipv6,
                                  .port = message.port,
                                  .reuse = (message.flags & host::kBindReuse) != 0,
                                  .family_only = (message.flags & host::kBindFamilyOnly) != 0};
  const Quotas& quotas = configuration_.quotas;
  const Result<uint16_t> port = program.device->bind(
      request, {program.id, message.id, program.peer.uid},
      {.of_user_max = quotas.ports_per_user, .reserve = kPortsReserved, .few = kFewPorts});
  if (!port) return deny(port.error().code, port.error().message);
  program.bound.insert(message.id);
  post(program, {.type = MessageType::kDone, .request = message.request, .port = *port});
}

Status Service::listen(ClientProcess& program, const Message& message) {
  return program.device->listen({program.id, message.id});
}

void Service::release(ClientProcess& program, const Message& message) {
  if (program.bound.erase(message.id) == 0) return;
  program.device->release({program.id, message.id});
}

Status Service::join(ClientProcess& program, const Message& message) {
  if (!net::is_multicast(message.address)) return Error{EINVAL, "not the address of a group"};
  const uint32_t quota = configuration_.quotas.groups_per_program;
  if (program.groups.contains(message.address)) return {};
  if (program.groups.size() >= quota)
    return refuse(program,
                  {EDQUOT, fmt::format("a program may join {} groups (service.groups_per_program)", quota)});
  auto membership = memberships_.take(program.peer.uid, 1);
  if (!membership) return refuse(program, membership.error());
  if (const int error = program.device->hold_group(message.address); error != 0)
    return Error{error, fmt::format("the device cannot join the group: {}", std::strerror(error))};
  program.groups.insert(message.address);
  program.memberships.add(std::move(*membership));
  program.device->with_switch(
      [&](ProgramSwitch& programs) { programs.groups().join(message.address, *program.attachment); });
  return {};
}

Status Service::leave(ClientProcess& program, const Message& message) {
  if (program.groups.erase(message.address) == 0) return Error{EINVAL, "the program is no member"};
  program.memberships.give_back(1);
  program.device->with_switch(
      [&](ProgramSwitch& programs) { programs.groups().leave(message.address, *program.attachment); });
  program.device->release_group(message.address);
  return {};
}

void Service::source_to(ClientProcess& program, const Message& message) {
  const auto source = program.device->source_to(message.address);
  if (!source) return answer(program, message, Error{ENETUNREACH, "no way leads there"});
  post(program, {.type = MessageType::kSource, .request = message.request, .address = *source});
}

/// The answer is a kResolved in any case.
void Service::resolve(ClientProcess& program, const Message& message) {
  if (program.resolutions >= kAwaitedMax)
    return post(
        program,
        {.type = MessageType::kResolved, .error = ENOBUFS, .vlan = message.vlan, .address = message.address});
  ++program.resolutions;
  neighbours_.ask({program.id, program.peer.uid}, *program.device, {message.address, message.vlan}, now_);
}

}  // namespace uroce::service
