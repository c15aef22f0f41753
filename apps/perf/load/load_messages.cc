#include "apps/perf/load/load_messages.h"

#include <fmt/format.h>

#include "apps/perf/ends/messages.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

using nlohmann::json;

bool flag_from(const json& object, const char* key) { return number_from(object, key, 1) != 0; }

uint32_t count_from(const json& object, const char* key, uint32_t max) {
  const auto number = static_cast<uint32_t>(number_from(object, key, max));
  if (number == 0) throw wrong_field(key);
  return number;
}

json to_json(const client::Histogram& histogram) {
  json list = json::array();
  histogram.for_each([&](uint64_t value, uint64_t samples) { list.push_back({value, samples}); });
  return list;
}

client::Histogram histogram_from(const json& list) {
  client::Histogram histogram;
  if (!list.is_array()) throw wrong_field("latency");
  for (const json& pair : list) {
    if (!pair.is_array() || pair.size() != 2 || !pair[0].is_number_unsigned() ||
        !pair[1].is_number_unsigned())
      throw wrong_field("latency");
    histogram.record(pair[0].get<uint64_t>(), pair[1].get<uint64_t>());
  }
  return histogram;
}

}  // namespace

nlohmann::json to_json(const Load& load) {
  json mix = json::array();
  for (const MixPart& part : load.mix)
    mix.push_back({{"operation", name_of(part.operation)}, {"size", part.size}, {"weight", part.weight}});
  return {{"mix", mix}, {"queue_pairs", load.queue_pairs}, {"threads", load.threads}, {"depth", load.depth}};
}

Load load_from(const nlohmann::json& object) {
  Load load;
  const json mix = object.is_object() ? object.value("mix", json()) : json();
  if (!mix.is_array() || mix.empty() || mix.size() > kPartsMax) throw wrong_field("mix");
  for (const json& part : mix) {
    if (!part.is_object() || !part.contains("operation") || !part["operation"].is_string())
      throw wrong_field("operation");
    const auto operations = parse_operations(part["operation"].get<std::string>());
    if (!operations || operations->size() != 1) throw wrong_field("operation");
    load.mix.push_back({.operation = operations->front(),
                        .size = count_from(part, "size", kSizeMax),
                        .weight = count_from(part, "weight", kWeightsMax)});
  }
  load.queue_pairs = count_from(object, "queue_pairs", kQueuePairsMax);
  load.threads = count_from(object, "threads", kThreadsMax);
  load.depth = count_from(object, "depth", 1 << 16);
  return load;
}

nlohmann::json to_json(const LoadRun& run) {
  return {{"warm_up_ns", run.warm_up.count()},
          {"measured_ns", run.measured.count()},
          {"rate", run.rate},
          {"poisson", run.spacing == Spacing::kPoisson ? 1 : 0},
          {"seed", run.seed},
          {"sends", run.sends ? 1 : 0}};
}

LoadRun run_from(const nlohmann::json& object) {
  constexpr uint64_t kTimeMax = uint64_t{86400} * 1'000'000'000;
  LoadRun run;
  run.start = std::chrono::steady_clock::now();
  run.warm_up = std::chrono::nanoseconds(number_from(object, "warm_up_ns", kTimeMax));
  run.measured = std::chrono::nanoseconds(number_from(object, "measured_ns", kTimeMax));
  if (run.measured.count() == 0) throw wrong_field("measured_ns");
  run.rate = real_from(object, "rate", kRateMax);
  run.spacing = flag_from(object, "poisson") ? Spacing::kPoisson : Spacing::kEven;
  run.seed = number_from(object, "seed");
  run.sends = flag_from(object, "sends");
  return run;
}

nlohmann::json to_json(const LoadClaims& claims) {
  return {{"receives", claims.receives}, {"atomics", claims.atomics}};
}

LoadClaims claims_from(const nlohmann::json& object) {
  return {.receives = number_from(object, "receives"), .atomics = number_from(object, "atomics")};
}

nlohmann::json to_json(std::span<const Address> addresses) {
  json list = json::array();
  for (const Address& address : addresses) list.push_back(to_json(address));
  return list;
}

std::vector<Address> addresses_from(const nlohmann::json& list) {
  if (!list.is_array() || list.empty() || list.size() > kAddressesMax) throw wrong_field("addresses");
  std::vector<Address> addresses;
  for (const json& address : list) addresses.push_back(address_from(address));
  return addresses;
}

void tell(client::Channel& channel, const LoadCounts& counts) {
  const bool sends = counts.sent != 0;
  channel.send({{"parts", sends ? counts.parts.size() : 0},
                {"slices", sends ? counts.slices.size() : 0},
                {"intended", counts.intended},
                {"seconds", counts.seconds},
                {"sent", counts.sent},
                {"received", counts.received},
                {"verified", counts.bytes_verified}});
  if (!sends) return;
  for (const LoadCounts::Part& part : counts.parts)
    channel.send({{"messages", part.messages}, {"latency", to_json(part.latency)}});
  for (const LoadCounts::Slice& slice : counts.slices)
    channel.send({{"messages", slice.messages}, {"bytes", slice.bytes}, {"latency", to_json(slice.latency)}});
}

LoadCounts hear_counts(client::Channel& channel) {
  const json head = channel.receive();
  LoadCounts counts;
  counts.intended = number_from(head, "intended");
  counts.seconds = real_from(head, "seconds", 1e6);
  counts.sent = number_from(head, "sent");
  counts.received = number_from(head, "received");
  counts.bytes_verified = number_from(head, "verified");
  counts.parts.resize(number_from(head, "parts", kPartsMax));
  for (LoadCounts::Part& part : counts.parts) {
    const json message = channel.receive();
    part.messages = number_from(message, "messages");
    part.latency = histogram_from(message.value("latency", json()));
  }
  const uint64_t slices = number_from(head, "slices", LoadCounts::kSlices);
  for (uint64_t i = 0; i < slices; ++i) {
    const json message = channel.receive();
    counts.slices[i] = {.messages = number_from(message, "messages"),
                        .bytes = number_from(message, "bytes"),
                        .latency = histogram_from(message.value("latency", json()))};
  }
  return counts;
}

}  // namespace uroce::perf
