#include "apps/perf/report_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace uroce::perf {

std::string json_of(const Report& report) {
  // Ordered: the file reads like the table.
  nlohmann::ordered_json json = {{"service", name_of(report.service)},
                                 {"device", report.device},
                                 {"peer", report.peer},
                                 {"address", report.address},
                                 {"peer_address", report.peer_address},
                                 {"arrangement", report.arrangement},
                                 {"path_mtu", report.path_mtu},
                                 {"depth", report.depth}};
  for (const Measurement& one : report.measurements) {
    const auto key = [&](const char* metric) {
      return fmt::format("{}.{}.{}", name_of(one.operation), one.size, metric);
    };
    if (one.bandwidth) {
      json[key("messages")] = one.bandwidth->messages;
      if (!is_reliable(report.service)) {
        json[key("received")] = one.bandwidth->received;
        json[key("lost")] = one.bandwidth->messages - one.bandwidth->received;
      }
      json[key("seconds")] = one.bandwidth->seconds;
      json[key("gigabits_per_second")] = one.bandwidth->gigabits_per_second;
      json[key("messages_per_second")] = one.bandwidth->messages_per_second;
    }
    if (one.latency) {
      json[key("round_trips")] = one.latency->samples;
      if (!is_reliable(report.service)) json[key("round_trips_lost")] = one.latency->lost;
      json[key("round_trip_p50_us")] = one.latency->p50_us;
      json[key("round_trip_p99_us")] = one.latency->p99_us;
      json[key("round_trip_p999_us")] = one.latency->p999_us;
    }
    json[key("bytes_verified")] = one.bytes_verified;
  }
  return json.dump(2) + "\n";
}

}  // namespace uroce::perf
