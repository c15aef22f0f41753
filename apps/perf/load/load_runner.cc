#include "apps/perf/load/load_runner.h"

#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "apps/perf/ends/messages.h"
#include "apps/perf/load/load_messages.h"
#include "apps/perf/load/load_threads.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

using Clock = std::chrono::steady_clock;

std::chrono::nanoseconds nanoseconds_of(double seconds) {
  return std::chrono::nanoseconds(static_cast<int64_t>(seconds * 1e9));
}

std::vector<LoadEnd*> pointers_to(const std::vector<std::unique_ptr<LoadEnd>>& ends) {
  std::vector<LoadEnd*> all;
  for (const auto& end : ends) all.push_back(end.get());
  return all;
}

}  // namespace

LoadRunner::LoadRunner(const Options& options, const Load& load, std::vector<client::Channel*> channels)
    : options_(options),
      load_(load),
      channels_(std::move(channels)),
      device_(client::VerbsDevice::open(options.device)) {
  const auto ends = static_cast<uint32_t>(load.threads * peers());
  if (load.queue_pairs % ends != 0)
    throw client::Failure(fmt::format(
        "--queue-pairs {}: they are divided among {} threads and {} peers, and must be a multiple of {}",
        load.queue_pairs, load.threads, peers(), ends));
  Load part = load;
  part.queue_pairs = load.queue_pairs / ends;
  for (uint32_t i = 0; i < ends; ++i)
    ends_.push_back(std::make_unique<LoadEnd>(device_, options_.plan, part));
  far_claims_.resize(ends);
  if (channels_.empty()) meet_here(peer_choice_of(options_), part);
  for (size_t peer = 0; peer < channels_.size(); ++peer) {
    channels_[peer]->send({{"load", to_json(part)}});
    channels_[peer]->receive();
    meet(*channels_[peer], peer);
  }
}

void LoadRunner::meet_here(const client::DeviceChoice& choice, const Load& part) {
  peer_device_ = client::VerbsDevice::open(choice);
  peer_gid_ = peer_device_->gid;
  for (const auto& end : ends_) {
    far_ends_.push_back(std::make_unique<LoadEnd>(*peer_device_, options_.plan, part));
    const std::vector<Address> near = end->addresses();
    const std::vector<Address> far = far_ends_.back()->addresses();
    far_ends_.back()->connect(near);
    end->connect(far);
  }
}

void LoadRunner::meet(client::Channel& channel, size_t peer) {
  for (uint32_t thread = 0; thread < load_.threads; ++thread) {
    LoadEnd& end = *ends_[thread * peers() + peer];
    const std::vector<Address> ours = end.addresses();
    std::vector<Address> theirs;
    while (theirs.size() < ours.size()) {
      const size_t count = std::min<size_t>(kAddressesMax, ours.size() - theirs.size());
      channel.send({{"end", thread}, {"addresses", to_json(std::span(ours).subspan(theirs.size(), count))}});
      const std::vector<Address> some =
          addresses_from(channel.receive().value("addresses", nlohmann::json()));
      theirs.insert(theirs.end(), some.begin(), some.end());
    }
    peer_gid_ = theirs.front().gid;
    end.connect(theirs);
  }
}

void LoadRunner::begin(double rate, Clock::time_point start) {
  LoadRun run{.start = start,
              .warm_up = nanoseconds_of(load_.warm_up_s),
              .measured = nanoseconds_of(load_.duration_s),
              .rate = rate / static_cast<double>(ends_.size()),
              .spacing = load_.spacing,
              .seed = ++seed_ << 32};
  const auto begin_end = [&](LoadEnd& end, size_t i, bool sends) {
    run.offset = static_cast<double>(i) / static_cast<double>(ends_.size());
    run.sends = sends;
    ++run.seed;
    end.begin(run);
  };
  for (size_t i = 0; i < far_ends_.size(); ++i) begin_end(*far_ends_[i], i, load_.bidirectional);
  for (size_t i = 0; i < ends_.size(); ++i) begin_end(*ends_[i], i, true);
  run.sends = load_.bidirectional;
  for (client::Channel* const channel : channels_) {
    run.seed += load_.threads;
    channel->send({{"run", to_json(run)}});
    channel->receive();
  }
}

void LoadRunner::look() {
  threads_->check();
  for (client::Channel* const channel : channels_) channel->receive_if_any();
}

LoadOutcome LoadRunner::run(double rate) {
  // Later than the last server says that it is ready, most times; else the first messages are late.
  const auto start = Clock::now() + std::chrono::milliseconds(20);
  begin(rate, start);
  std::vector<std::vector<LoadEnd*>> lists(load_.threads);
  for (size_t i = 0; i < ends_.size(); ++i) {
    lists[i / peers()].push_back(ends_[i].get());
    if (!far_ends_.empty()) lists[i / peers()].push_back(far_ends_[i].get());
  }
  threads_ = std::make_unique<LoadThreads>(lists);
  const auto sleep_until = [&](Clock::time_point when) {
    while (Clock::now() < when) {
      client::throw_if_interrupted();
      look();
      std::this_thread::sleep_for(
          std::min<Clock::duration>(when - Clock::now(), std::chrono::milliseconds(50)));
    }
  };
  LoadOutcome outcome;
  sleep_until(start + nanoseconds_of(load_.warm_up_s));
  const CpuMeter cpu;
  sleep_until(start + nanoseconds_of(load_.warm_up_s + load_.duration_s));
  outcome.cpu = cpu.used();
  settle(outcome);
  threads_->stop();
  threads_.reset();
  collect(outcome);
  return outcome;
}

/// Everything that was sent has come, or is lost, at both sides.
void LoadRunner::settle(LoadOutcome& outcome) {
  const bool reliable = is_reliable(options_.plan.service);
  const auto look_here = [&] { look(); };
  await_drained(pointers_to(ends_), look_here);
  await_drained(pointers_to(far_ends_), look_here);
  for (size_t i = 0; i < far_ends_.size(); ++i) {
    await_received(*far_ends_[i], ends_[i]->claims().receives, reliable, look_here);
    far_claims_[i] = far_ends_[i]->claims();
  }
  for (size_t peer = 0; peer < channels_.size(); ++peer) {
    nlohmann::json claims = nlohmann::json::array();
    for (uint32_t thread = 0; thread < load_.threads; ++thread)
      claims.push_back(to_json(ends_[thread * peers() + peer]->claims()));
    channels_[peer]->send({{"finish", claims}});
    const nlohmann::json answer = channels_[peer]->receive();
    const nlohmann::json theirs = answer.value("claims", nlohmann::json());
    if (!theirs.is_array() || theirs.size() != load_.threads)
      throw client::Failure(channels_[peer]->peer() + " does not say what it has sent");
    for (uint32_t thread = 0; thread < load_.threads; ++thread)
      far_claims_[thread * peers() + peer] = claims_from(theirs[thread]);
    const nlohmann::json cpu = answer.value("cpu_s", nlohmann::json());
    if (cpu.is_number()) outcome.peer_cpu_s = outcome.peer_cpu_s.value_or(0) + cpu.get<double>();
  }
  for (size_t i = 0; i < ends_.size(); ++i)
    await_received(*ends_[i], far_claims_[i].receives, reliable, [&] { threads_->check(); });
}

void LoadRunner::collect(LoadOutcome& outcome) {
  uint64_t receives_there = 0;
  uint64_t receives_back = 0;
  for (size_t i = 0; i < ends_.size(); ++i) {
    receives_there += ends_[i]->claims().receives;
    receives_back += far_claims_[i].receives;
    outcome.there.add(ends_[i]->finish(far_claims_[i].atomics));
  }
  for (size_t i = 0; i < far_ends_.size(); ++i)
    outcome.back.add(far_ends_[i]->finish(ends_[i]->claims().atomics));
  for (client::Channel* const channel : channels_) {
    channel->send({{"settled", true}});
    outcome.back.add(hear_counts(*channel));
  }
  outcome.lost_there = receives_there - std::min(receives_there, outcome.back.received);
  outcome.lost_back = receives_back - std::min(receives_back, outcome.there.received);
  outcome.bytes_verified = outcome.there.bytes_verified + outcome.back.bytes_verified;
}

void LoadRunner::part() {
  for (client::Channel* const channel : channels_) channel->send({{"over", true}});
}

}  // namespace uroce::perf
