// What the service says about itself.
#include <fmt/format.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "base/counter_texts.h"
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

nlohmann::json drops_of(const Attachment::Counters& counters) {
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

nlohmann::json describe(const Program& program, const Attachment::Counters& counters) {
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

std::string Service::status_text() {
  nlohmann::json all{{"pid", getpid()},
                     {"socket", socket_.path()},
                     {"seconds", (now_ - started_).ns / seconds(1).ns},
                     {"programs", attached_},
                     {"devices", nlohmann::json::array()}};
  for (const auto& device : devices_) {
    std::map<uint32_t, Attachment::Counters> counters;
    device->for_each(
        [&](const Attachment& program) { counters.emplace(program.program(), program.counters()); });
    nlohmann::json addresses = nlohmann::json::array();
    for (const auto& ours : device->addresses())
      addresses.push_back(fmt::format("{}/{}{}", wire::to_text(ours.address), ours.prefix_bits,
                                      ours.vlan != 0 ? fmt::format("@{}", ours.vlan) : ""));
    nlohmann::json entry{{"name", device->name()},
                         {"port", device->port()},
                         {"mac", wire::to_text(device->mac())},
                         {"up", device->link().up},
                         {"mtu", device->link().mtu},
                         {"addresses", addresses},
                         {"counters", counters_of(device->device())},
                         {"programs", nlohmann::json::array()}};
    for (const auto& [id, program] : programs_)
      if (program->attached() && program->device == device.get())
        entry["programs"].push_back(describe(*program, counters[id]));
    all["devices"].push_back(std::move(entry));
  }
  return all.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

void Service::report(Program& program, const Message& message) {
  const Status status = serves(program, message);
  post_text(program, message, status ? status_text() : std::string());
  answer(program, message, status);
}

void Service::post_text(Program& program, const Message& request, std::string_view text) {
  constexpr size_t kPart = std::tuple_size_v<decltype(Message::text)> - 1;
  for (size_t at = 0; at < text.size(); at += kPart) {
    Message part{.type = MessageType::kText, .request = request.request};
    host::set_text(part.text, text.substr(at, kPart));
    post(program, part);
  }
}

/// Peers of one program that are programs of the same host differ by nothing but their numbers.
void Service::tell_owner(Program& program, const Message& message) {
  if (const Status status = serves(program, message); !status) return answer(program, message, status);
  for (const auto& [id, other] : programs_) {
    if (!other->attached() || !other->device->owns(message.address)) continue;
    const NumberBlock block = other->attachment->block();
    if (!block.contains({message.number})) continue;
    return post(program, {.type = MessageType::kOwner,
                          .request = message.request,
                          .number = block.first,
                          .count = block.count,
                          .id = other->peer.uid});
  }
  answer(program, message, Error{ENOENT, "no program has that queue pair number"});
}

}  // namespace uroce::service
