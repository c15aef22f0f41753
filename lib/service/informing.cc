// What programs are told unasked: the latest state of things, however long they have not read.
//
// Decision: programs are told states, not changes. A full queue of changes would end a program that is
// stopped in a debugger.
#include <algorithm>

#include "service/service.h"

namespace uroce::service {

using host::MessageType;

namespace {

bool same(const host::SharedAddress& one, const host::SharedAddress& other) {
  return one.address == other.address && one.prefix_bits == other.prefix_bits && one.vlan == other.vlan;
}

bool contains(const std::vector<host::SharedAddress>& addresses, const host::SharedAddress& address) {
  return std::ranges::any_of(addresses, [&](const auto& other) { return same(address, other); });
}

}  // namespace

void Service::inform_all() {
  for (auto& [id, program] : programs_) inform(*program);
}

void Service::inform(ClientProcess& program) {
  if (program.ended) return;
  program.outbox.flush();
  // The rest when this has been read.
  if (!program.attached() || program.outbox.waiting() > 0) return;
  for (const NumberBlock block : std::exchange(program.gone, {}))
    post(program, {.type = MessageType::kGone, .number = block.first, .count = block.count});
  inform_of_addresses(program);
  const ServedDevice::Link link = program.device->link();
  if (link != program.told_link) post(program, {.type = MessageType::kLink, .mtu = link.mtu, .up = link.up});
  program.told_link = link;
  const uint32_t count = attached_;
  if (count != program.told_programs) post(program, {.type = MessageType::kPrograms, .count = count});
  program.told_programs = count;
  inform_of_faults(program);
  if (std::exchange(program.forget_neighbours, false)) post(program, {.type = MessageType::kForgetNeighbour});
}

void Service::inform_of_addresses(ClientProcess& program) {
  const std::vector<host::SharedAddress>& now = program.device->addresses();
  for (const host::SharedAddress& told : program.told_addresses)
    if (!contains(now, told)) post(program, {.type = MessageType::kAddressRemoved, .address = told.address});
  for (const host::SharedAddress& ours : now)
    if (!contains(program.told_addresses, ours))
      post(program, {.type = MessageType::kAddressAdded,
                     .vlan = ours.vlan,
                     .prefix_bits = ours.prefix_bits,
                     .address = ours.address});
  program.told_addresses = now;
}

void Service::tell_resolved(const NeighbourWatch::Answer& answer) {
  ClientProcess* const program = find(answer.program);
  if (program == nullptr) return;
  --program->resolutions;
  post(*program, {.type = MessageType::kResolved,
                  .error = answer.error,
                  .vlan = answer.neighbour.vlan,
                  .address = answer.neighbour.address,
                  .hop = answer.neighbour.address,
                  .mac = answer.mac});
}

void Service::tell_moved(const ServedDevice& device, const Gid& address, MacAddress mac) {
  for (auto& [id, program] : programs_) {
    if (!program->attached() || program->device != &device) continue;
    if (program->outbox.waiting() > 0)
      program->forget_neighbours = true;
    else
      post(*program, {.type = MessageType::kForgetNeighbour, .hop = address, .mac = mac});
  }
}

}  // namespace uroce::service
