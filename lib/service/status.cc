// What the service says about itself.
#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/counters/counter_texts.h"
#include "service/service.h"
#include "wire/address_text.h"

namespace uroce::service {

using host::MessageType;

namespace {

constexpr uint64_t kBlockBytes = 512;  // of stat::st_blocks

uint64_t memory_of(const Descriptor& descriptor) {
  struct stat status {};
  return fstat(descriptor.get(), &status) == 0 ? static_cast<uint64_t>(status.st_blocks) * kBlockBytes : 0;
}

nlohmann::json drops_of(const ClientSession::Counters& counters) {
  nlohmann::json drops = nlohmann::json::object();
  for (size_t i = 0; i < counters.drops.size(); ++i)
    if (counters.drops[i] != 0) drops[label_of(static_cast<Drop>(i))] = counters.drops[i];
  return drops;
}

/// The counters of a device that are not zero, by their labels.
nlohmann::json counters_of(const engine::Device& device) {
  nlohmann::json counters = nlohmann::json::object();
  const engine::Device::PortCounts port = device.port_counts();
  if (port.dropped != 0) counters["port_dropped"] = port.dropped;
  if (port.transmit_calls != 0) counters["port_transmit_calls"] = port.transmit_calls;
  for (size_t i = 0; i < kCounterCount; ++i) {
    const auto counter = static_cast<Counter>(i);
    if (const uint64_t value = device.counter(counter); value != 0)
      counters[std::string(texts_of(counter).label)] = value;
  }
  return counters;
}

nlohmann::json describe(const ClientProcess& program, const ClientSession::Counters& counters) {
  const NumberBlock block = program.attachment->block();
  const TrafficMeter::Rates& rates = program.traffic.rates();
  return {{"pid", program.peer.pid},
          {"uid", program.peer.uid},
          {"name", program.name},
          {"numbers", {{"first", block.first}, {"count", block.count}}},
          {"queue_pairs", program.attachment->queue_pairs()},
          {"memory_bytes", memory_of(*program.memory)},
          {"ports", program.bound.size()},
          {"groups", program.groups.size()},
          {"frames_sent", counters.frames_from},
          {"bytes_sent", counters.bytes_from},
          {"frames_received", counters.frames_to},
          {"bytes_received", counters.bytes_to},
          {"frames_sent_per_s", rates.frames_from},
          {"bytes_sent_per_s", rates.bytes_from},
          {"frames_received_per_s", rates.frames_to},
          {"bytes_received_per_s", rates.bytes_to},
          {"drops", drops_of(counters)},
          {"port_dropped", program.attachment->port_dropped()}};
}

}  // namespace

StatusSnapshot Service::look_at_status() {
  const auto text_of = [](const nlohmann::json& object) {
    return object.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
  };
  StatusSnapshot snapshot{.number = status_.number + 1,
                          .service = text_of({{"pid", getpid()},
                                              {"socket", socket_.path()},
                                              {"seconds", (now_ - started_).ns / seconds(1).ns},
                                              {"programs", attached_}}),
                          .devices = {}};
  for (const auto& device : devices_) {
    std::map<uint32_t, ClientSession::Counters> counters;
    device->for_each(
        [&](const ClientSession& program) { counters.emplace(program.program(), program.counters()); });
    nlohmann::json addresses = nlohmann::json::array();
    for (const auto& ours : device->addresses())
      addresses.push_back(fmt::format("{}/{}{}", wire::to_text(ours.address), ours.prefix_bits,
                                      ours.vlan != 0 ? fmt::format("@{}", ours.vlan) : ""));
    StatusSnapshot::Device shown{.text = text_of({{"name", device->name()},
                                                  {"port", device->port()},
                                                  {"mac", wire::to_text(device->mac())},
                                                  {"up", device->link().up},
                                                  {"mtu", device->link().mtu},
                                                  {"addresses", addresses},
                                                  {"counters", counters_of(device->device())}}),
                                 .programs = {}};
    for (const auto& [id, program] : programs_)
      if (program->attached() && program->device == device.get())
        shown.programs.push_back({program->peer.uid, text_of(describe(*program, counters[id]))});
    snapshot.devices.push_back(std::move(shown));
  }
  return snapshot;
}

/// The status as the program's user sees it. Things are looked at no more often than the bound for all users
/// together allows: in between all get what was seen last.
std::shared_ptr<const std::string> Service::status_for(ClientProcess& program) {
  if (status_.number == 0 || status_looks_.left(now_) > 0) {
    status_looks_.take(1, now_);
    status_ = look_at_status();
  }
  UserAccount& account = *program.account;
  if (account.status == nullptr || account.status_number != status_.number) {
    const uid_t user = program.peer.uid;
    account.status = std::make_shared<const std::string>(status_.text_for(user, is_privileged(user)));
    account.status_number = status_.number;
  }
  return account.status;
}

void Service::report(ClientProcess& program, const Message& message) {
  Status status = serves(message);
  if (status) status = may_use(program);
  if (status) post_text(program, message, status_for(program));
  answer(program, message, status);
}

/// Many parts, which the outbox makes when they are sent: until then all that ask share one text.
void Service::post_text(ClientProcess& program, const Message& request,
                        std::shared_ptr<const std::string> text) {
  program.account->budget.charge(static_cast<int64_t>(Outbox::parts_of(*text) / kPartsOfUnit), now_);
  program.outbox.post({.message = {.type = MessageType::kText, .request = request.request},
                       .descriptors = {},
                       .text = std::move(text)});
}

/// Peers of one program that are programs of the same host differ by nothing but their numbers. Which block a
/// program of another user has is not told.
void Service::tell_owner(ClientProcess& program, const Message& message) {
  Status status = serves(message);
  if (status) status = may_use(program);
  if (!status) return answer(program, message, status);
  for (const auto& device : devices_) {
    if (!device->owns(message.address)) continue;
    const ClientProcess* const other = find(device->numbers().owner_of({message.number & QpNumber::kMask}));
    if (other == nullptr || !other->attached()) continue;
    const uid_t user = program.peer.uid;
    const bool shown = is_privileged(user) || other->peer.uid == user;
    const NumberBlock block = shown ? other->attachment->block() : NumberBlock{message.number, 1};
    return post(program, {.type = MessageType::kOwner,
                          .request = message.request,
                          .number = block.first,
                          .count = block.count,
                          .id = other->peer.uid});
  }
  answer(program, message, Error{ENOENT, "no program has that queue pair number"});
}

}  // namespace uroce::service
