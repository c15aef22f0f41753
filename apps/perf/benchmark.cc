#include "apps/perf/benchmark.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <fstream>

#include "apps/perf/ends/initiator.h"
#include "apps/perf/ends/local_peer.h"
#include "apps/perf/ends/reception.h"
#include "apps/perf/ends/remote_peer.h"
#include "apps/perf/load/load_benchmark.h"
#include "apps/perf/measurement/progress.h"
#include "apps/perf/report/report_csv.h"
#include "apps/perf/report/report_html.h"
#include "apps/perf/report/report_json.h"
#include "apps/perf/report/report_plot.h"
#include "apps/perf/report/report_table.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

/// CPU time of both ends of a measurement, for each message or round trip of it.
struct BothEnds {
  double cpu_ns = 0;
  double peer_cpu_ns = 0;
  double cycles = 0;
};
BothEnds both_ends(const CpuUse& own, double peer_s, uint64_t count) {
  const double all_s = own.seconds + peer_s;
  return {.cpu_ns = per(all_s * 1e9, count),
          .peer_cpu_ns = per(peer_s * 1e9, count),
          .cycles = own.seconds > 0 ? per(own.cycles * all_s / own.seconds, count) : 0};
}

/// Runs the rounds of a plan from the initiator's end.
class Runner {
 public:
  Runner(const Plan& plan, Endpoint& endpoint, Peer& peer) : plan_(plan), endpoint_(endpoint), peer_(peer) {}

  std::vector<Measurement> run(bool show_progress) {
    std::vector<Measurement> measurements;
    size_t rounds = 0;
    for (const Operation operation : plan_.operations)
      rounds += sizes_of(operation).size() * plan_.measures.size();
    Progress progress(rounds, show_progress);
    for (const Operation operation : plan_.operations) {
      for (const uint64_t size : sizes_of(operation)) {
        Measurement measurement{.operation = operation, .size = size, .bandwidth = {}, .latency = {}};
        for (const Measure measure : plan_.measures) {
          progress.step(fmt::format("{} {} {}", name_of(operation), size_text(size), name_of(measure)));
          round({.service = plan_.service,
                 .operation = operation,
                 .measure = measure,
                 .size = size,
                 .depth = depth_for(plan_, size),
                 .slots = plan_.slots,
                 .receive_list = plan_.receive_list},
                measurement);
        }
        measurements.push_back(measurement);
      }
    }
    return measurements;
  }

  [[nodiscard]] const ibv_gid& peer_gid() const { return peer_gid_; }

 private:
  [[nodiscard]] std::vector<uint64_t> sizes_of(Operation operation) const {
    return is_atomic(operation) ? std::vector{kAtomicBytes} : plan_.sizes;
  }

  void round(const Round& round, Measurement& measurement) {
    if (is_atomic(round.operation) && !endpoint_.device().has_atomics())
      throw client::Failure(endpoint_.device().name + " has no atomics");
    endpoint_.begin_round(round.layout());
    const Address peer = peer_.meet(round, endpoint_.address());
    peer_gid_ = peer.gid;
    endpoint_.connect(peer);
    Initiator initiator(endpoint_, peer_, round);
    if (round.measure == Measure::kBandwidth) {
      stream(initiator, round, measurement);
    } else {
      ping(initiator, measurement);
    }
  }

  [[nodiscard]] Stop stop() const {
    return {.messages = plan_.iterations,
            .time = std::chrono::nanoseconds(static_cast<int64_t>(plan_.duration_s * 1e9))};
  }

  // A first phase warms caches and paths up and proves the data; the second is measured and proves it again.
  // Checking is outside the measured stretch.
  void stream(Initiator& initiator, const Round& round, Measurement& measurement) {
    initiator.begin(++seed_);
    initiator.stream({.messages = round.layout().slots, .time = {}});
    measurement.bytes_verified += initiator.finish();
    initiator.begin(++seed_);
    const Stretch stretch = initiator.stream(stop());
    measurement.bytes_verified += initiator.finish();
    const uint64_t received = initiator.received();
    const double rate = stretch.seconds > 0 ? static_cast<double>(received) / stretch.seconds : 0;
    const BothEnds cpu = both_ends(stretch.cpu, initiator.peer_cpu_s(), received);
    measurement.bandwidth = {.messages = stretch.messages,
                             .received = received,
                             .seconds = stretch.seconds,
                             .gigabits_per_second = rate * static_cast<double>(round.size) * 8 / 1e9,
                             .messages_per_second = rate,
                             .cpu_ns = cpu.cpu_ns,
                             .peer_cpu_ns = cpu.peer_cpu_ns,
                             .cycles = cpu.cycles,
                             .rate_samples = stretch.rate_samples};
  }

  void ping(Initiator& initiator, Measurement& measurement) {
    constexpr uint64_t kWarmUp = 16;
    RoundTrips samples;
    initiator.begin(++seed_);
    initiator.ping({.messages = kWarmUp, .time = {}}, samples);
    measurement.bytes_verified += initiator.finish();
    samples = {};
    initiator.begin(++seed_);
    const Stretch stretch = initiator.ping(stop(), samples);
    measurement.bytes_verified += initiator.finish();
    const client::Histogram& all = samples.all;
    const BothEnds cpu = both_ends(stretch.cpu, initiator.peer_cpu_s(), samples.answered);
    measurement.latency = {.samples = samples.answered,
                           .lost = stretch.messages - samples.answered,
                           .p50_us = microseconds(all.percentile(50)),
                           .p99_us = microseconds(all.percentile(99)),
                           .p999_us = microseconds(all.percentile(99.9)),
                           .interval_us = microseconds(samples.intervals.percentile(50)),
                           .cpu_ns = cpu.cpu_ns,
                           .peer_cpu_ns = cpu.peer_cpu_ns,
                           .cycles = cpu.cycles,
                           .histogram = all,
                           .p50_samples = samples.p50_us,
                           .p99_samples = samples.p99_us};
  }

  const Plan& plan_;
  Endpoint& endpoint_;
  Peer& peer_;
  uint64_t seed_ = 0;
  ibv_gid peer_gid_{};
};

/// All but what the peer is.
Report run_rounds(const Options& options, Peer& peer, Endpoint& endpoint) {
  const Plan& plan = options.plan;
  Runner runner(plan, endpoint, peer);
  Report report;
  report.measurements = runner.run(!options.quiet);
  name_ends(report, endpoint.device(), runner.peer_gid());
  report.service = plan.service;
  report.path_mtu = endpoint.path_mtu();
  report.depth = plan.depth;
  report.slots = plan.slots;
  report.receive_list = plan.receive_list;
  return report;
}

Report run_in_process(const Options& options) {
  const client::DeviceChoice peer_choice = peer_choice_of(options);
  Endpoint endpoint(options.device, options.plan);
  LocalPeer peer(peer_choice, options.plan, "the other end of this process");
  Report report = run_rounds(options, peer, endpoint);
  report.peer = peer_choice.name;
  report.arrangement = "both ends turned by one thread of this process";
  return report;
}

Report run_client(const Options& options) {
  if (options.connect.size() > 1)
    throw client::Failure(
        "--connect: several servers are for a load (--queue-pairs, --threads, --rate, --profile)");
  RemotePeer peer(client::Channel::connect(options.connect.front()), options.plan);
  try {
    Endpoint endpoint(options.device, options.plan);
    Report report = run_rounds(options, peer, endpoint);
    report.peer = options.connect.front();
    report.arrangement = "client";
    peer.part();
    return report;
  } catch (const client::Failure& failure) {
    peer.tell(failure.what());
    throw;
  }
}

int run_server(const Options& options) {
  // Kept open: a device that does not open is told now, rather than to the client, and a link whose other end
  // waits for this one comes up.
  const client::VerbsDevice open_device = client::VerbsDevice::open(options.device);
  client::Listener listener(options.listen_port);
  if (!options.quiet) fmt::print("waiting for a client on port {}\n", listener.port());
  std::fflush(stdout);
  Client client = await_client(listener);
  const uint64_t bytes = serve(client, options.device);
  if (!options.quiet) fmt::print("served {}: {} bytes verified at this end\n", client.channel.peer(), bytes);
  return 0;
}

void write_file(const std::string& path, const std::string& text) {
  if (path.empty()) return;
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw client::failed("cannot write " + path, errno != 0 ? errno : EIO);
}

Report measure(const Options& options) {
  if (!options.loads.empty()) return run_loads(options);
  return options.connect.empty() ? run_in_process(options) : run_client(options);
}

}  // namespace

int run(const Options& options) {
  client::note_interruptions();
  try {
    if (options.server) return run_server(options);
    const Description machine = describe_machine();
    Report report = measure(options);
    report.machine.insert(report.machine.begin(), machine.begin(), machine.end());
    fmt::print("{}", table_of(report));
    write_file(options.json_path, json_of(report));
    write_file(options.csv_path, csv_of(report));
    write_file(options.html_path, html_of(report));
    write_file(options.plot_path, plot_of(report));
    return 0;
  } catch (const client::Failure& failure) {
    fmt::print(stderr, "uroce perf: {}\n", failure.what());
    return 1;
  } catch (const client::Interrupted& interrupted) {
    fmt::print(stderr, "uroce perf: interrupted\n");
    return 128 + interrupted.signal;
  }
}

}  // namespace uroce::perf
