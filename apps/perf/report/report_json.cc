#include "apps/perf/report/report_json.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

namespace uroce::perf {

namespace {

using nlohmann::ordered_json;

double us(const client::Histogram& latency, double percent) {
  return static_cast<double>(latency.percentile(percent)) / 1000;
}

/// Each bucket as its upper end in microseconds and its samples.
ordered_json histogram_of(const client::Histogram& histogram) {
  ordered_json list = ordered_json::array();
  histogram.for_each([&](uint64_t value, uint64_t samples) {
    list.push_back({static_cast<double>(value) / 1000, samples});
  });
  return list;
}

/// What comparisons want of a report beside its flat figures: values of the same figure in parts of the time.
class Details {
 public:
  void add_samples(const std::string& key, const std::vector<double>& values) {
    if (values.size() > 1) samples_[key] = values;
  }
  void add_histogram(const std::string& key, const client::Histogram& histogram) {
    if (histogram.count() != 0) histograms_[key] = histogram_of(histogram);
  }
  void store(ordered_json& json) const {
    if (!samples_.empty()) json["samples"] = samples_;
    if (!histograms_.empty()) json["histograms_us"] = histograms_;
  }

 private:
  ordered_json samples_ = ordered_json::object();
  ordered_json histograms_ = ordered_json::object();
};

void add(ordered_json& json, Details& details, const LoadFigures& one, Service service) {
  const auto key = [&](const char* metric) {
    return fmt::format("{}.{}.{}", one.name, one.back ? "back" : "there", metric);
  };
  json[key("messages")] = one.messages;
  json[key("messages_per_second")] = one.messages_per_second;
  json[key("gigabits_per_second")] = one.gigabits_per_second;
  for (const auto& [name, percent] :
       {std::pair{"p50", 50.0}, {"p90", 90.0}, {"p99", 99.0}, {"p999", 99.9}, {"max", 100.0}})
    json[key(fmt::format("latency_{}_us", name).c_str())] = us(one.latency, percent);
  details.add_histogram(key("latency"), one.latency);
  if (one.cpu_ns == 0) return;  // a part of a mix
  if (one.offered > 0) json[key("offered_per_second")] = one.offered;
  if (!is_reliable(service)) json[key("lost")] = one.lost;
  json[key("cpu_ns_per_message")] = one.cpu_ns;
  json[key("cycles_per_message")] = one.cycles;
  json[key("bytes_verified")] = one.bytes_verified;
  details.add_samples(key("messages_per_second"), one.rate_samples);
  details.add_samples(key("latency_p50_us"), one.p50_samples);
  details.add_samples(key("latency_p99_us"), one.p99_samples);
}

void add(ordered_json& json, const Ramp& ramp) {
  json[ramp.name + ".highest_per_second"] = ramp.highest;
  ordered_json steps = ordered_json::array();
  for (const RampStep& step : ramp.steps)
    steps.push_back({{"offered_per_second", step.offered},
                     {"messages_per_second", step.achieved},
                     {"lost", step.lost},
                     {"latency_p50_us", step.p50_us},
                     {"latency_p99_us", step.p99_us},
                     {"held", step.held}});
  json["ramps"][ramp.name] = steps;
}

}  // namespace

std::string json_of(const Report& report) {
  Details details;
  // Ordered: the file reads like the table.
  nlohmann::ordered_json json = {{"service", name_of(report.service)},
                                 {"device", report.device},
                                 {"peer", report.peer},
                                 {"address", report.address},
                                 {"peer_address", report.peer_address},
                                 {"arrangement", report.arrangement},
                                 {"path_mtu", report.path_mtu},
                                 {"depth", report.depth},
                                 {"slots", report.slots},
                                 {"receive_list", report.receive_list}};
  for (const auto& [name, text] : report.machine) json["machine"][name] = text;
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
      json[key("cpu_ns_per_message")] = one.bandwidth->cpu_ns;
      if (one.bandwidth->peer_cpu_ns > 0) json[key("peer_cpu_ns_per_message")] = one.bandwidth->peer_cpu_ns;
      json[key("cycles_per_message")] = one.bandwidth->cycles;
      details.add_samples(key("messages_per_second"), one.bandwidth->rate_samples);
    }
    if (one.latency) {
      json[key("round_trips")] = one.latency->samples;
      if (!is_reliable(report.service)) json[key("round_trips_lost")] = one.latency->lost;
      json[key("round_trip_p50_us")] = one.latency->p50_us;
      json[key("round_trip_p99_us")] = one.latency->p99_us;
      json[key("round_trip_p999_us")] = one.latency->p999_us;
      json[key("ping_interval_p50_us")] = one.latency->interval_us;
      json[key("cpu_ns_per_round_trip")] = one.latency->cpu_ns;
      if (one.latency->peer_cpu_ns > 0) json[key("peer_cpu_ns_per_round_trip")] = one.latency->peer_cpu_ns;
      json[key("cycles_per_round_trip")] = one.latency->cycles;
      details.add_samples(key("round_trip_p50_us"), one.latency->p50_samples);
      details.add_samples(key("round_trip_p99_us"), one.latency->p99_samples);
      details.add_histogram(key("round_trip"), one.latency->histogram);
    }
    json[key("bytes_verified")] = one.bytes_verified;
  }
  if (!report.load.empty()) json["load"] = report.load;
  for (const LoadFigures& one : report.loads) add(json, details, one, report.service);
  for (const Ramp& ramp : report.ramps) add(json, ramp);
  details.store(json);
  return json.dump(2) + "\n";
}

}  // namespace uroce::perf
