// A program becomes one of those that share a device.
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <new>

#include "host/network_namespace.h"
#include "service/granted_numbers.h"
#include "service/service.h"

namespace uroce::service {

using host::MessageType;

namespace {

constexpr uint32_t kBlock = 1u << host::kBlockBits;
constexpr char kFirstPrintable = 0x20;
constexpr char kLastPrintable = 0x7E;

/// What people are shown of what a program calls itself.
std::string printable(std::string_view text) {
  std::string name(text.substr(0, 64));
  for (char& c : name)
    if (c < kFirstPrintable || c > kLastPrintable) c = '?';
  return name;
}

}  // namespace

ServedDevice* Service::find_device(std::string_view name) const {
  for (const auto& device : devices_)
    if (name.empty() || device->name() == name) return device.get();
  return nullptr;
}

/// Whether the program may attach at all.
Status Service::admit(const Program& program, const Message& message) const {
  if (Status status = serves(program, message); !status) return status;
  const uid_t uid = program.peer.uid;
  const auto& users = configuration_.users;
  const bool own = uid == 0 || uid == geteuid();
  if (!own && users && std::ranges::find(*users, uid) == users->end())
    return Error{EACCES, fmt::format("user {} may not use this service (service.users)", uid)};
  const Quotas& quotas = configuration_.quotas;
  if (attached_ >= quotas.programs)
    return Error{EDQUOT, fmt::format("the service takes {} programs (service.programs)", quotas.programs)};
  const auto of_user = std::ranges::count_if(programs_, [&](const auto& entry) {
    return entry.second->attached() && entry.second->peer.uid == uid;
  });
  if (of_user >= static_cast<ptrdiff_t>(quotas.programs_per_user))
    return Error{EDQUOT, fmt::format("the service takes {} programs of one user (service.programs_per_user)",
                                     quotas.programs_per_user)};
  if (message.count > quotas.numbers_per_program)
    return Error{EDQUOT, fmt::format("a program may have {} queue pair numbers (service.numbers_per_program)",
                                     quotas.numbers_per_program)};
  return {};
}

/// `former`: the descriptor of a former service's memory for the program.
Result<NumberBlock> Service::block_for(Program& program, ServedDevice& device, const Message& message,
                                       int former) {
  if (message.number != 0) {
    const auto held = granted_numbers(former, program.peer.uid);
    if (!held) return held.error();
    if (*held != NumberBlock{message.number, message.count})
      return Error{EPERM, "the queue pair numbers that the program had are others than it says"};
    if (device.blocks().claim(*held, program.id)) return *held;
    return Error{EEXIST, "the queue pair numbers that the program had are another's by now"};
  }
  // Fewer numbers are better than none: most programs use few.
  std::optional<NumberBlock> block;
  for (uint32_t count = std::max(message.count, kBlock); !block && count >= kBlock; count /= 2)
    block = device.blocks().allocate(count, program.id, now_);
  if (!block)
    return Error{EAGAIN, "no block of queue pair numbers is free: those of ended programs rest for 4 s"};
  return *block;
}

void Service::attach(Program& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  if (program.attached()) return violate(program, "the program is attached already");
  if (const Status status = try_attach(program, datagram); !status) answer(program, message, status);
}

Status Service::try_attach(Program& program, host::Datagram& datagram) {
  const Message& message = datagram.message;
  auto& [memory, former] = datagram.descriptor;
  if (Status status = admit(program, message); !status) return status;
  ServedDevice* const device = find_device(host::text_of(message.name));
  if (device == nullptr)
    return Error{ENODEV, fmt::format("the service has no device {}", printable(host::text_of(message.name)))};
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
  program.name = printable(host::text_of(message.text));
  program.memory = std::make_shared<const Descriptor>(std::move(sound));
  program.attachment = std::make_unique<Attachment>(program.id, *block, std::move(to_program->mapping),
                                                    std::move(*from_program));
  program.attachment->grant(program.peer.uid);
  program.traffic = TrafficMeter(now_);
  ++attached_;
  device->with_switch([&](ProgramSwitch& programs) { programs.add(*program.attachment); });
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
  inform_all();
  return {};
}

}  // namespace uroce::service
