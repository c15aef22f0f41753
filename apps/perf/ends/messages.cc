#include "apps/perf/ends/messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "apps/perf/ends/endpoint.h"
#include "client/failure.h"

namespace uroce::perf {

client::Failure wrong_field(const char* key) {
  return client::Failure(fmt::format("the peer sent a wrong '{}'", key));
}

namespace {

const nlohmann::json& field(const nlohmann::json& json, const char* key) {
  if (!json.is_object() || !json.contains(key))
    throw client::Failure(fmt::format("the peer did not send '{}'", key));
  return json[key];
}

std::string text_from(const nlohmann::json& json, const char* key) {
  const nlohmann::json& value = field(json, key);
  if (!value.is_string()) throw wrong_field(key);
  return value.get<std::string>();
}

Operation operation_from(const nlohmann::json& json) {
  const auto operations = parse_operations(text_from(json, "operation"));
  if (!operations) throw wrong_field("operation");
  return operations->front();
}

Measure measure_from(const nlohmann::json& json) {
  const auto measures = parse_measures(text_from(json, "measure"));
  if (!measures) throw wrong_field("measure");
  return measures->front();
}

const char* service_word(Service service) {
  return service == Service::kRc ? "rc" : service == Service::kUc ? "uc" : "ud";
}

std::string hex_of(const ibv_gid& gid) {
  std::string text;
  for (const uint8_t byte : gid.raw) text += fmt::format("{:02x}", byte);
  return text;
}

ibv_gid gid_from(const std::string& text) {
  ibv_gid gid{};
  if (text.size() != 2 * sizeof(gid.raw)) throw wrong_field("gid");
  for (size_t i = 0; i < sizeof(gid.raw); ++i) {
    const char* at = text.data() + 2 * i;
    const auto [end, error] = std::from_chars(at, at + 2, gid.raw[i], 16);
    if (error != std::errc{} || end != at + 2) throw wrong_field("gid");
  }
  return gid;
}

constexpr uint32_t kDepthMax = 1 << 16;

}  // namespace

uint64_t number_from(const nlohmann::json& json, const char* key, uint64_t max) {
  const nlohmann::json& value = field(json, key);
  if (!value.is_number_unsigned() || value.get<uint64_t>() > max) throw wrong_field(key);
  return value.get<uint64_t>();
}

double real_from(const nlohmann::json& json, const char* key, double max) {
  const nlohmann::json& value = field(json, key);
  if (!value.is_number()) throw wrong_field(key);
  const auto number = value.get<double>();
  if (!(number >= 0 && number <= max)) throw wrong_field(key);
  return number;
}

// Only what the server needs: how much memory, how many requests, which path MTU. Rounds come one by one.
nlohmann::json to_json(const Plan& plan) {
  return {{"version", kDialogueVersion},
          {"service", service_word(plan.service)},
          {"sizes", plan.sizes},
          {"depth", plan.depth},
          {"path_mtu", plan.path_mtu.value_or(0)},
          {"ack_timeout", plan.ack_timeout}};
}

Plan plan_from(const nlohmann::json& json) {
  if (number_from(json, "version") != kDialogueVersion)
    throw client::Failure("the peer is another version of uroce perf");
  Plan plan;
  const auto service = parse_service(text_from(json, "service"));
  if (!service) throw wrong_field("service");
  plan.service = *service;
  const nlohmann::json& sizes = field(json, "sizes");
  if (!sizes.is_array() || sizes.empty()) throw wrong_field("sizes");
  for (const nlohmann::json& size : sizes) {
    if (!size.is_number_unsigned() || size.get<uint64_t>() - 1 >= kSizeMax) throw wrong_field("sizes");
    plan.sizes.push_back(size.get<uint64_t>());
  }
  plan.depth = static_cast<uint32_t>(std::max<uint64_t>(1, number_from(json, "depth", kDepthMax)));
  if (const auto bytes = static_cast<uint32_t>(number_from(json, "path_mtu", 4096)); bytes != 0) {
    if (!client::path_mtu_of(bytes)) throw wrong_field("path_mtu");
    plan.path_mtu = bytes;
  }
  plan.ack_timeout = static_cast<uint32_t>(number_from(json, "ack_timeout", 31));
  return plan;
}

nlohmann::json to_json(const Address& address) {
  return {{"queue_pair", address.queue_pair},
          {"psn", address.psn},
          {"lid", address.lid},
          {"gid", hex_of(address.gid)},
          {"path_mtu", address.path_mtu},
          {"reads_in_max", address.reads_in_max},
          {"remote_key", address.remote_key},
          {"source", address.source},
          {"target", address.target}};
}

Address address_from(const nlohmann::json& json) {
  const auto number = [&](const char* key, uint64_t max) {
    return static_cast<uint32_t>(number_from(json, key, max));
  };
  Address address{.queue_pair = number("queue_pair", 0xFFFFFF),
                  .psn = number("psn", 0xFFFFFF),
                  .lid = static_cast<uint16_t>(number("lid", UINT16_MAX)),
                  .gid = gid_from(text_from(json, "gid")),
                  .path_mtu = number("path_mtu", 4096),
                  .reads_in_max = number("reads_in_max", UINT32_MAX),
                  .remote_key = number("remote_key", UINT32_MAX),
                  .source = number_from(json, "source"),
                  .target = number_from(json, "target")};
  if (!client::path_mtu_of(address.path_mtu)) throw wrong_field("path_mtu");
  return address;
}

nlohmann::json to_json(const Round& round) {
  return {{"operation", name_of(round.operation)},
          {"measure", name_of(round.measure)},
          {"size", round.size},
          {"depth", round.depth},
          {"slots", round.slots},
          {"receive_list", round.receive_list}};
}

Round round_from(const nlohmann::json& json) {
  Round round{.operation = operation_from(json),
              .measure = measure_from(json),
              .size = number_from(json, "size", kSizeMax),
              .depth = static_cast<uint32_t>(number_from(json, "depth", kDepthMax)),
              .slots = static_cast<uint32_t>(number_from(json, "slots", kDepthMax)),
              .receive_list = static_cast<uint32_t>(number_from(json, "receive_list", kBatchMax))};
  if (round.size == 0) throw wrong_field("size");
  return round;
}

nlohmann::json to_json(const Phase& phase) { return {{"seed", phase.seed}, {"first", phase.first}}; }

Phase phase_from(const nlohmann::json& json) {
  return {.seed = number_from(json, "seed"), .first = number_from(json, "first")};
}

}  // namespace uroce::perf
