#include "apps/stat/report_json.h"

#include "apps/stat/row_texts.h"
#include "base/counters/counter_texts.h"

namespace uroce::statistics {
namespace {

using nlohmann::json;

json counters_of(const CounterValues& values) {
  json counters = json::object();
  for (size_t i = 0; i < kCounterCount; ++i)
    counters[std::string(texts_of(static_cast<Counter>(i)).label)] = values[i];
  return counters;
}

json values_of(const LatencyValues& values, uint32_t sampled_of) {
  return {{"sampled_of", sampled_of},
          {"samples", values.samples()},
          {"sum_ns", values.sum_ns()},
          {"p50_ns", values.percentile_ns(50)},
          {"p90_ns", values.percentile_ns(90)},
          {"p99_ns", values.percentile_ns(99)},
          {"p99_9_ns", values.percentile_ns(99.9)},
          {"max_ns", values.percentile_ns(100)}};
}

json latencies_of(const Reading::Device& device) {
  json all = json::array();
  for (size_t i = 0; i < kLatencyCount; ++i) {
    const LatencyTexts& texts = kLatencyTexts[i];
    json values = values_of(device.latencies[i], texts.sampled_of);
    values["stage"] = texts.stage;
    values["operation"] = texts.operation;
    all.push_back(std::move(values));
  }
  return all;
}

/// How many regions of each kind the device has, and of how many bytes; kinds without a region are left out.
json region_kinds_of(const host::DeviceShown& shown) {
  json kinds = json::object();
  for (size_t kind = 1; kind < host::kRegionKinds; ++kind)
    if (shown.regions_of_kind[kind] != 0)
      kinds[std::string(region_kind(kind))] = {{"regions", shown.regions_of_kind[kind]},
                                               {"bytes", shown.region_bytes_of_kind[kind]}};
  return kinds;
}

json to_json(const Reading::Device& device) {
  json entry{{"name", device.name},
             {"port", device.port},
             {"link_up", device.shown.link_up != 0},
             {"link_mbps", device.shown.link_mbps},
             {"queue_pairs", device.shown.queue_pairs},
             {"completion_queues", device.shown.completion_queues},
             {"regions", device.shown.regions},
             {"region_kinds", region_kinds_of(device.shown)},
             {"port_dropped", device.shown.port_dropped},
             {"port_transmit_calls", device.shown.port_transmit_calls},
             {"counters", counters_of(device.total)},
             {"latencies", latencies_of(device)},
             {"pollers", json::array()}};
  for (const CounterValues& values : device.pollers) entry["pollers"].push_back(counters_of(values));
  return entry;
}

json to_json(const host::RegionRow& row, const Reading::Process& process) {
  return {{"key", row.key},          {"device", process.devices[row.device].name},
          {"kind", kind_of(row)},    {"domain", row.domain},
          {"bound", row.bound != 0}, {"address", row.address},
          {"bytes", row.length},     {"rights", rights_of(row)}};
}

json to_json(const NvmfQueue& queue) {
  json entry{{"host", queue.host}, {"host_nqn", queue.host_nqn}, {"queue", queue.number}};
  for (const NvmfQueueValue& value : kNvmfQueueValues) entry[value.label] = value.of(queue.row);
  return entry;
}

json to_json(const NvmfNamespace& one) {
  json entry{{"subsystem", one.subsystem}, {"nsid", one.nsid}, {"latencies", json::array()}};
  for (const NvmfNamespaceValue& value : kNvmfNamespaceValues) entry[value.label] = value.of(one.row);
  for (const NvmfNamespaceLatency& latency : kNvmfNamespaceLatencies) {
    json values = values_of(one.*latency.of, host::kNvmfCommandsPerMeasured);
    values["operation"] = latency.operation;
    entry["latencies"].push_back(std::move(values));
  }
  return entry;
}

}  // namespace

json to_json(const host::QueuePairRow& row, const Reading::Process& process) {
  json entry{{"number", row.number},
             {"device", row.device < process.devices.size() ? process.devices[row.device].name : ""},
             {"poller", row.poller},
             {"type", type_of(row)},
             {"state", state_of(row)},
             {"destination", row.destination},
             {"peer", peer_of(row)},
             {"mtu", row.mtu},
             {"congestion_control", control_of(row)}};
  for (const RowValue& value : kRowValues) entry[value.label] = value.of(row);
  return entry;
}

json to_json(const Reading& reading) {
  json all{{"processes", json::array()}, {"unreadable", reading.complaints}};
  for (const Reading::Process& process : reading.processes) {
    json entry{{"pid", process.pid},           {"program", process.program},
               {"devices", json::array()},     {"answers", process.queue_pairs.current},
               {"queue_pairs", json::array()}, {"regions", json::array()}};
    for (const Reading::Device& device : process.devices) entry["devices"].push_back(to_json(device));
    for (const host::QueuePairRow& row : process.queue_pairs.rows)
      entry["queue_pairs"].push_back(to_json(row, process));
    for (const host::RegionRow& row : process.regions) entry["regions"].push_back(to_json(row, process));
    for (const NvmfQueue& queue : process.nvmf.queues) entry["nvmf_queues"].push_back(to_json(queue));
    for (const NvmfNamespace& one : process.nvmf.namespaces) entry["nvmf_namespaces"].push_back(to_json(one));
    all["processes"].push_back(std::move(entry));
  }
  return all;
}

}  // namespace uroce::statistics
