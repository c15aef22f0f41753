// A program becomes one of those that share a device.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "base/values/printable.h"
#include "host/network_namespace.h"
#include "service/granted_numbers.h"
#include "service/service.h"

namespace uroce::service {

using host::MessageType;

namespace {

constexpr size_t kNameBytesMax = 64;  // of a program, as people are shown it
/// Descriptors that a program takes beside its connection: its memory, ours for it until it was told, and its
/// process.
constexpr uint64_t kDescriptorsOfProgram = 3;
/// Programs that can be told something for one unit of a user's budget.
constexpr uint32_t kToldOfUnit = 8;

}  // namespace

ServedDevice* Service::find_device(std::string_view name) const {
  for (const auto& device : devices_)
    if (name.empty() || device->name() == name) return device.get();
  return nullptr;
}

/// Whether the program may attach at all.
Status Service::admit(const ClientProcess& program, const Message& message) const {
  if (Status status = serves(message); !status) return status;
  if (Status status = may_use(program); !status) return status;
  const Quotas& quotas = configuration_.quotas;
  if (message.count > quotas.numbers_per_program)
    return Error{EDQUOT, fmt::format("a program may have {} queue pair numbers (service.numbers_per_program)",
                                     quotas.numbers_per_program)};
  return {};
}

/// What a program takes of its user's shares beside its numbers. Nothing, if there is too little of anything.
Status Service::take_shares(ClientProcess& program) {
  const uid_t user = program.peer.uid;
  auto place = places_.take(user, 1);
  if (!place) return place.error();
  auto memory = memory_.take(user, host::MemoryLayout(host::kServiceMemory).bytes());
  if (!memory) return memory.error();
  auto descriptors = descriptors_.take(user, kDescriptorsOfProgram);
  if (!descriptors) return descriptors.error();
  program.place = std::move(*place);
  program.memory_share = std::move(*memory);
  program.descriptors.add(std::move(*descriptors));
  return {};
}

void Service::give_back_shares(ClientProcess& program) {
  program.place = {};
  program.memory_share = {};
  program.memberships = {};
  program.descriptors.give_back(program.descriptors.amount() - 1);  // but for its socket
}

/// `former`: the descriptor of a former service's memory for the program.
Result<NumberBlock> Service::block_for(ClientProcess& program, ServedDevice& device, const Message& message,
                                       int former) {
  if (message.number != 0) {
    const auto held = granted_numbers(former, program.peer.uid);
    if (!held) return held.error();
    if (*held != NumberBlock{message.number, message.count})
      return Error{EPERM, "the queue pair numbers that the program had are others than it says"};
    return device.numbers().claim(*held, program.peer.uid, program.id, now_);
  }
  // Fewer numbers are better than none: most programs use few.
  return device.numbers().allocate({.user = program.peer.uid,
                                    .program = program.id,
                                    .count = message.count,
                                    .programs_left = places_.available(program.peer.uid)},
                                   now_);
}

void Service::attach(ClientProcess& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  if (program.attached()) return violate(program, "the program is attached already");
  if (const Status status = try_attach(program, datagram); !status) {
    give_back_shares(program);
    answer(program, message, refuse(program, status.error()));
  }
}

Status Service::try_attach(ClientProcess& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  auto& [memory, former] = datagram.descriptor;
  if (Status status = admit(program, message); !status) return status;
  ServedDevice* const device = find_device(host::text_of(message.name));
  if (device == nullptr)
    return Error{ENODEV, fmt::format("the service has no device {}", printable(host::text_of(message.name)))};
  if (Status status = take_shares(program); !status) return status;
  auto from_program = host::map_sealed_memory(memory.get(), host::kProgramMemory);
  if (!from_program) return from_program.error();
  // Memory of this size is closed in no time, and does not count as a descriptor that may hang.
  Descriptor sound = std::move(memory);
  auto to_program =
      host::make_sealed_memory("uroce-service", host::MemoryLayout(host::kServiceMemory).bytes());
  if (!to_program) return to_program.error();
  auto block = block_for(program, *device, message, former.get());
  if (!block) return block.error();
  former = Descriptor();  // likewise

  program.device = device;
  program.name = printable(host::text_of(message.text), kNameBytesMax);
  program.memory = std::make_shared<const Descriptor>(std::move(sound));
  program.attachment = std::make_unique<ClientSession>(program.id, *block, std::move(to_program->mapping),
                                                       std::move(*from_program));
  program.attachment->grant(program.peer.uid);
  program.traffic = TrafficMeter(now_);
  watch_process(program);
  program.unattached = {};
  ++attached_;
  device->add(*program.attachment);
  program.told_link = device->link();
  Message attached{.type = MessageType::kAttached,
                   .request = message.request,
                   .number = block->first,
                   .count = block->count,
                   .mtu = device->link().mtu,
                   .flags = device->device().within_host() ? host::kWithinHost : 0,
                   .port = static_cast<uint16_t>(device->addresses().size()),
                   .up = device->link().up,
                   .interface = device->device().interface(),
                   .network = host::own_network_namespace(),
                   .mac = device->mac()};
  host::set_text(attached.name, device->name());
  const auto keys = device->partition_keys();
  attached.partition_keys_count =
      static_cast<uint16_t>(std::min(keys.size(), attached.partition_keys.size()));
  std::copy_n(keys.begin(), attached.partition_keys_count, attached.partition_keys.begin());
  program.outbox.post({.message = attached,
                       .descriptors = {std::make_shared<const Descriptor>(std::move(to_program->descriptor)),
                                       device->bell()}});
  // Each of the others hears that there is one more.
  program.account->budget.charge(attached_ / kToldOfUnit, now_);
  inform_all();
  return {};
}

}  // namespace uroce::service
