#include "apps/perf/load/load_benchmark.h"

#include <fmt/format.h>

#include <algorithm>

#include "apps/perf/ends/remote_peer.h"
#include "apps/perf/load/load_runner.h"
#include "apps/perf/measurement/progress.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

uint64_t messages_of(const LoadCounts& counts) {
  uint64_t sum = 0;
  for (const LoadCounts::Part& part : counts.parts) sum += part.messages;
  return sum;
}

client::Histogram latency_of(const LoadCounts& counts) {
  client::Histogram all;
  for (const LoadCounts::Part& part : counts.parts) all.add(part.latency);
  return all;
}

/// Seconds in which messages were sent: more than were asked for where the last ones were late.
double seconds_of(const LoadCounts& counts, const Load& load) {
  return std::max(counts.seconds, load.duration_s);
}

LoadFigures figures_of_part(const LoadCounts& counts, const Load& load, size_t index) {
  const LoadCounts::Part& part = counts.parts[index];
  const MixPart& kind = load.mix[index];
  const double rate = static_cast<double>(part.messages) / seconds_of(counts, load);
  return {.name = fmt::format("{}.{}.{}", load.name, name_of(kind.operation), kind.size),
          .text = text_of(kind),
          .messages = part.messages,
          .messages_per_second = rate,
          .gigabits_per_second = rate * static_cast<double>(kind.size) * 8 / 1e9,
          .latency = part.latency};
}

LoadFigures figures_of_all(const LoadCounts& counts, const Load& load) {
  const uint64_t messages = messages_of(counts);
  const double seconds = seconds_of(counts, load);
  LoadFigures figures{.name = load.name,
                      .text = load.mix.size() == 1 ? text_of(load.mix.front()) : "all",
                      .messages = messages,
                      .offered = static_cast<double>(counts.intended) / load.duration_s,
                      .messages_per_second = static_cast<double>(messages) / seconds,
                      .latency = latency_of(counts)};
  for (size_t i = 0; i < load.mix.size(); ++i)
    figures.gigabits_per_second += figures_of_part(counts, load, i).gigabits_per_second;
  for (const LoadCounts::Slice& slice : counts.slices) {
    figures.rate_samples.push_back(static_cast<double>(slice.messages) * LoadCounts::kSlices /
                                   load.duration_s);
    if (slice.latency.count() == 0) continue;
    figures.p50_samples.push_back(microseconds(slice.latency.percentile(50)));
    figures.p99_samples.push_back(microseconds(slice.latency.percentile(99)));
  }
  return figures;
}

/// CPU time of a client and of a server is that of all of their run; a server warms up as long as its client.
double cpu_seconds(const LoadOutcome& outcome, const Load& load) {
  const double measured = load.duration_s / (load.duration_s + load.warm_up_s);
  return outcome.cpu.seconds + outcome.peer_cpu_s.value_or(0) * measured;
}

void add_figures(Report& report, const LoadOutcome& outcome, const Load& load) {
  const uint64_t messages = messages_of(outcome.there) + (load.bidirectional ? messages_of(outcome.back) : 0);
  const double cpu_s = cpu_seconds(outcome, load);
  const double cycles = outcome.cpu.seconds > 0 ? outcome.cpu.cycles * cpu_s / outcome.cpu.seconds : 0;
  for (const bool back : {false, true}) {
    if (back && !load.bidirectional) continue;
    const LoadCounts& counts = back ? outcome.back : outcome.there;
    LoadFigures all = figures_of_all(counts, load);
    all.back = back;
    all.lost = back ? outcome.lost_back : outcome.lost_there;
    all.cpu_ns = per(cpu_s * 1e9, messages);
    all.cycles = per(cycles, messages);
    all.bytes_verified = back ? outcome.there.bytes_verified : outcome.back.bytes_verified;
    report.loads.push_back(std::move(all));
    for (size_t i = 0; load.mix.size() > 1 && i < counts.parts.size(); ++i) {
      report.loads.push_back(figures_of_part(counts, load, i));
      report.loads.back().back = back;
    }
  }
}

RampStep step_of(const LoadOutcome& outcome, const Load& load, double rate) {
  // 0.1 % too few are too few; one message more or less is none of a schedule's ends.
  constexpr double kHeld = 0.999;
  const auto achieved_in = [&](const LoadCounts& counts) {
    return static_cast<double>(messages_of(counts)) / seconds_of(counts, load);
  };
  RampStep step{.offered = rate,
                .achieved = achieved_in(outcome.there),
                .lost = outcome.lost_there + outcome.lost_back};
  if (load.bidirectional) step.achieved = std::min(step.achieved, achieved_in(outcome.back));
  const client::Histogram latency = latency_of(outcome.there);
  step.p50_us = microseconds(latency.percentile(50));
  step.p99_us = microseconds(latency.percentile(99));
  step.held = step.lost == 0 && step.achieved >= rate * kHeld - 1 / load.duration_s;
  return step;
}

/// Runs loads on one set of peers.
class Loads {
 public:
  explicit Loads(const Options& options) : options_(options), progress_(steps(), !options.quiet) {
    for (const std::string& server : options.connect)
      servers_.emplace_back(client::Channel::connect(server), options.plan);
  }

  Report run() {
    try {
      for (const Load& load : options_.loads) run(load);
      for (RemotePeer& server : servers_) server.part();
    } catch (const client::Failure& failure) {
      for (RemotePeer& server : servers_) server.tell(failure.what());
      throw;
    }
    return std::move(report_);
  }

 private:
  static constexpr int kRampSteps = 12;
  static constexpr double kRampExact = 0.005;  // of the rate

  [[nodiscard]] size_t steps() const { return options_.loads.size() * (options_.ramp ? kRampSteps + 2 : 1); }

  void run(const Load& load) {
    std::vector<client::Channel*> channels;
    for (RemotePeer& server : servers_) channels.push_back(&server.channel());
    LoadRunner runner(options_, load, channels);
    describe(runner, load);
    if (options_.ramp) {
      ramp(runner, load);
    } else {
      progress_.step(load.name);
      add_figures(report_, runner.run(load.rate), load);
    }
    runner.part();
  }

  /// From what the queue pairs carry without a rate down to what they carry by a schedule. A step that fails
  /// is tried again: one pause of the machine is no limit of the device.
  void ramp(LoadRunner& runner, const Load& load) {
    progress_.step(load.name + " without a rate");
    const LoadOutcome most = runner.run(0);
    Ramp ramp{.name = load.name, .steps = {}};
    double high = load.rate > 0 ? load.rate : figures_of_all(most.there, load).messages_per_second * 1.05;
    double low = 0;
    LoadOutcome best = most;
    // A given rate may be held as it is.
    double rate = load.rate > 0 ? high : high * 0.75;
    for (int step = 0; step < kRampSteps && high - low > high * kRampExact; ++step) {
      progress_.step(fmt::format("{} at {:.0f} a second", load.name, rate));
      LoadOutcome outcome = runner.run(rate);
      RampStep seen = step_of(outcome, load, rate);
      if (!seen.held) {
        outcome = runner.run(rate);
        seen = step_of(outcome, load, rate);
      }
      ramp.steps.push_back(seen);
      (seen.held ? low : high) = rate;
      if (seen.held) best = std::move(outcome);
      rate = (low + high) / 2;
    }
    ramp.highest = low;
    report_.ramps.push_back(std::move(ramp));
    if (low > 0) add_figures(report_, best, load);
  }

  void describe(const LoadRunner& runner, const Load& load) {
    name_ends(report_, runner.device(), runner.peer_gid());
    report_.service = options_.plan.service;
    report_.path_mtu = runner.path_mtu();
    report_.depth = load.depth;
    report_.peer = servers_.empty() ? peer_choice_of(options_).name
                                    : fmt::format("{}", fmt::join(options_.connect, ", "));
    report_.arrangement = servers_.empty() ? "both ends in this process" : "client";
    report_.load =
        fmt::format("{} queue pairs, {} threads, {} s after {} s{}{}", load.queue_pairs, load.threads,
                    load.duration_s, load.warm_up_s, load.bidirectional ? ", both directions" : "",
                    load.spacing == Spacing::kPoisson ? ", Poisson arrivals" : "");
  }

  const Options& options_;
  Progress progress_;
  std::vector<RemotePeer> servers_;
  Report report_;
};

}  // namespace

Report run_loads(const Options& options) { return Loads(options).run(); }

}  // namespace uroce::perf
