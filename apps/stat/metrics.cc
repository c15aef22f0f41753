// Regions are counted by kind, not one by one: a program registers thousands, each of which would be a
// series, and clients of the endpoint must not see keys. `uroce stat` shows them to a user that may look at
// the process's memory anyway.
#include "apps/stat/metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>

#include "apps/stat/reading.h"
#include "apps/stat/row_texts.h"
#include "base/counters/counter_texts.h"

namespace uroce::statistics {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

/// Families by name, in which metrics are gathered.
class Families {
 public:
  void add(const std::string& name, std::string_view help, MetricType type, Labels labels, double value) {
    ClientMetric metric;
    metric.label = std::move(labels);
    (type == MetricType::Counter ? metric.counter.value : metric.gauge.value) = value;
    add(name, help, type, std::move(metric));
  }
  void add(const std::string& name, std::string_view help, MetricType type, ClientMetric metric) {
    MetricFamily& family = families_[name];
    if (family.metric.empty()) {
      family.name = name;
      family.help = help;
      family.type = type;
    }
    // A process may say what it likes: two of a name would have the scrape of all refused.
    std::string series = name;
    for (const ClientMetric::Label& label : metric.label) series += '\n' + label.name + '\n' + label.value;
    if (!series_.insert(std::move(series)).second) {
      ++duplicates_;
      return;
    }
    family.metric.push_back(std::move(metric));
  }
  [[nodiscard]] std::vector<MetricFamily> take() {
    add("uroce_duplicate_series", "Series that processes show twice; the first ones are here",
        MetricType::Gauge, {}, static_cast<double>(duplicates_));
    std::vector<MetricFamily> all;
    for (auto& [name, family] : families_) all.push_back(std::move(family));
    return all;
  }

 private:
  std::map<std::string, MetricFamily> families_;
  std::unordered_set<std::string> series_;
  uint64_t duplicates_ = 0;
};

/// Reasons are values of a label, so that one expression asks for all of them.
struct Group {
  std::string_view prefix;
  const char* family;
  const char* label;
  const char* help;
};
constexpr std::array kGroups{
    Group{"drop_", "uroce_dropped_total", "reason",
          "Received and dropped, by reason; uroce(1) explains them"},
    Group{"fault_", "uroce_faults_total", "fault", "Met a fault that uroce fault ordered"}};

void add_counter(Counter counter, uint64_t value, Labels labels, Families& families) {
  const CounterTexts& texts = texts_of(counter);
  for (const Group& group : kGroups) {
    if (!texts.label.starts_with(group.prefix)) continue;
    labels.push_back({group.label, std::string(texts.label.substr(group.prefix.size()))});
    return families.add(group.family, group.help, MetricType::Counter, std::move(labels),
                        static_cast<double>(value));
  }
  // Prometheus counts time in seconds.
  if (counter == Counter::kUnattendedMs)
    return families.add("uroce_unattended_seconds_total", texts.help, MetricType::Counter, std::move(labels),
                        static_cast<double>(value) / 1000);
  families.add(fmt::format("uroce_{}_total", texts.label), fmt::format("{} ({})", texts.help, texts.unit),
               MetricType::Counter, std::move(labels), static_cast<double>(value));
}

/// Samples up to powers of two of 250 ns.
ClientMetric histogram_of(const LatencyValues& values, Labels labels) {
  constexpr uint64_t kLeastNs = 250;
  constexpr int kBuckets = 20;
  ClientMetric metric;
  metric.label = std::move(labels);
  metric.histogram.sample_count = values.samples();
  metric.histogram.sample_sum = static_cast<double>(values.sum_ns()) / 1e9;
  for (int i = 0; i < kBuckets; ++i) {
    const uint64_t up_to = kLeastNs << i;
    metric.histogram.bucket.push_back({values.samples_up_to(up_to), static_cast<double>(up_to) / 1e9});
  }
  metric.histogram.bucket.push_back({values.samples(), std::numeric_limits<double>::infinity()});
  return metric;
}

void add_latency(Latency latency, const LatencyValues& values, Labels labels, Families& families) {
  const LatencyTexts& texts = texts_of(latency);
  labels.push_back({"stage", std::string(texts.stage)});
  labels.push_back({"operation", std::string(texts.operation)});
  families.add("uroce_latency_seconds",
               "Sampled: from post to wire, wire to acknowledgement, receipt to completion",
               MetricType::Histogram, histogram_of(values, std::move(labels)));
}

void add_device(const Reading::Device& device, const Labels& labels, Families& families) {
  const host::DeviceShown& shown = device.shown;
  const auto gauge = [&](const char* name, const char* help, double value) {
    families.add(name, help, MetricType::Gauge, labels, value);
  };
  gauge("uroce_link_up", "Whether the port's link is up", shown.link_up != 0 ? 1 : 0);
  constexpr double kBytesOfMegabit = 125'000;
  gauge("uroce_link_speed_bytes", "Bytes a second that the link carries; 0: unknown",
        shown.link_mbps * kBytesOfMegabit);
  gauge("uroce_queue_pairs", "Queue pairs that there are", shown.queue_pairs);
  gauge("uroce_completion_queues", "Completion queues that there are", shown.completion_queues);
  gauge("uroce_regions", "Memory regions that there are", shown.regions);
  for (size_t kind = 1; kind < host::kRegionKinds; ++kind) {
    Labels more = labels;
    more.push_back({"kind", std::string(region_kind(kind))});
    families.add("uroce_regions_of_kind", "Memory regions and windows, by kind", MetricType::Gauge, more,
                 static_cast<double>(shown.regions_of_kind[kind]));
    families.add("uroce_region_bytes", "Bytes that regions and windows give access to, by kind",
                 MetricType::Gauge, more, static_cast<double>(shown.region_bytes_of_kind[kind]));
  }
  families.add("uroce_port_dropped_total", "Frames that the port had no room for", MetricType::Counter,
               labels, static_cast<double>(shown.port_dropped));
  families.add("uroce_port_transmit_calls_total", "System calls by which the port sent", MetricType::Counter,
               labels, static_cast<double>(shown.port_transmit_calls));
  for (size_t i = 0; i < kLatencyCount; ++i)
    add_latency(static_cast<Latency>(i), device.latencies[i], labels, families);
  for (size_t poller = 0; poller < device.pollers.size(); ++poller) {
    Labels more = labels;
    more.push_back({"poller", fmt::format("{}", poller)});
    for (size_t i = 0; i < kCounterCount; ++i)
      add_counter(static_cast<Counter>(i), device.pollers[poller][i], more, families);
  }
}

void add_queue_pair(const host::QueuePairRow& row, Labels labels, Families& families) {
  labels.push_back({"queue_pair", fmt::format("{:#x}", row.number)});
  labels.push_back({"network_peer_address", peer_of(row)});
  for (const RowValue& value : kRowValues) {
    const std::string_view label = value.label;
    std::string name = fmt::format("uroce_queue_pair_{}{}", label, value.grows ? "_total" : "");
    double number = value.of(row);
    if (label.ends_with("_ns")) {
      name = fmt::format("uroce_queue_pair_{}_seconds", label.substr(0, label.size() - 3));
      number /= 1e9;
    } else if (label == "mbps") {
      name = "uroce_queue_pair_rate_limit_bytes";
      number *= 125'000;
    }
    families.add(name, fmt::format("{} ({})", value.help, value.unit),
                 value.grows ? MetricType::Counter : MetricType::Gauge, labels, number);
  }
}

void add_busiest(const Reading::Process& process, const std::vector<Labels>& labels, size_t most,
                 Families& families) {
  std::vector<host::QueuePairRow> rows = process.queue_pairs.rows;
  const auto traffic = [](const host::QueuePairRow& row) { return row.sent_bytes + row.received_bytes; };
  most = std::min(most, rows.size());
  std::ranges::partial_sort(rows, rows.begin() + static_cast<std::ptrdiff_t>(most), std::ranges::greater{},
                            traffic);
  for (size_t i = 0; i < most; ++i) add_queue_pair(rows[i], labels[rows[i].device], families);
}

void add_nvmf(const NvmfTarget& target, const Labels& labels, Families& families) {
  for (const NvmfQueue& queue : target.queues) {
    Labels more = labels;
    more.push_back({"network_peer_address", queue.host});
    more.push_back({"nvme_host_nqn", queue.host_nqn});
    more.push_back({"nvme_queue", fmt::format("{}", queue.number)});
    for (const NvmfQueueValue& value : kNvmfQueueValues)
      families.add(fmt::format("uroce_nvmf_queue_{}_total", value.label),
                   fmt::format("{} ({})", value.help, value.unit), MetricType::Counter, more,
                   static_cast<double>(value.of(queue.row)));
  }
  for (const NvmfNamespace& one : target.namespaces) {
    Labels more = labels;
    more.push_back({"nvme_subsystem_nqn", one.subsystem});
    more.push_back({"nvme_namespace", fmt::format("{}", one.nsid)});
    for (const NvmfNamespaceValue& value : kNvmfNamespaceValues)
      families.add(fmt::format("uroce_nvmf_namespace_{}_total", value.label),
                   fmt::format("{} ({})", value.help, value.unit), MetricType::Counter, more,
                   static_cast<double>(value.of(one.row)));
    for (const NvmfNamespaceLatency& latency : kNvmfNamespaceLatencies) {
      Labels of = more;
      of.push_back({"operation", latency.operation});
      families.add("uroce_nvmf_namespace_latency_seconds",
                   "Sampled: from the receipt of a command to its outcome", MetricType::Histogram,
                   histogram_of(one.*latency.of, std::move(of)));
    }
  }
}

}  // namespace

std::vector<MetricFamily> Metrics::Collect() const {
  const Reading reading = read_statistics({.regions = true});
  Families families;
  families.add("uroce_unreadable_processes", "Processes whose statistics are of another version or damaged",
               MetricType::Gauge, {}, static_cast<double>(reading.complaints.size()));
  for (const Reading::Process& process : reading.processes) {
    // As OpenTelemetry names attributes: process.pid, process.executable.name.
    const Labels labels{{"process_pid", fmt::format("{}", process.pid)},
                        {"process_executable_name", process.program}};
    families.add("uroce_process_answers",
                 "Whether the process answers; otherwise all but its counters is old", MetricType::Gauge,
                 labels, process.queue_pairs.current ? 1 : 0);
    std::vector<Labels> of_devices;
    for (const Reading::Device& device : process.devices) {
      of_devices.push_back(labels);
      of_devices.back().push_back({"device", device.name});
      add_device(device, of_devices.back(), families);
    }
    add_nvmf(process.nvmf, labels, families);
    add_busiest(process, of_devices, queue_pairs_max_, families);
  }
  return families.take();
}

}  // namespace uroce::statistics
