#include "apps/perf/load/load_server.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <thread>

#include "apps/perf/ends/messages.h"
#include "apps/perf/load/load_messages.h"
#include "apps/perf/load/load_threads.h"
#include "apps/perf/measurement/cpu_meter.h"
#include "client/failure.h"

namespace uroce::perf {
namespace {

constexpr std::chrono::seconds kSilenceMax{60};

class LoadSession {
 public:
  LoadSession(client::Channel& channel, const client::DeviceChoice& choice, const Plan& plan,
              const Load& load)
      : channel_(channel), device_(client::VerbsDevice::open(choice)), plan_(plan) {
    for (const MixPart& part : load.mix)
      if (!has_operation(plan_.service, part.operation))
        throw client::Failure("the service has no such operation");
    if (uint64_t{load.queue_pairs} * load.threads > kQueuePairsMax)
      throw client::Failure("too many queue pairs");
    for (uint32_t i = 0; i < load.threads; ++i)
      ends_.push_back(std::make_unique<LoadEnd>(device_, plan_, load));
    for (const auto& end : ends_) all_.push_back(end.get());
    met_.resize(ends_.size());
    channel_.send({{"ready", true}});
  }

  uint64_t serve() {
    for (;;) {
      const nlohmann::json message = next();
      if (message.contains("over")) return verified_;
      if (message.contains("end")) {
        meet(message);
      } else if (message.contains("run")) {
        run(run_from(message["run"]));
      } else {
        finish(message.value("finish", nlohmann::json()));
      }
    }
  }

 private:
  /// The threads turn the ends meanwhile.
  nlohmann::json next() {
    if (!threads_) return channel_.receive(kSilenceMax);
    for (;;) {
      look();
      if (auto message = channel_.receive_if_any()) return *std::move(message);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void look() {
    client::throw_if_interrupted();
    threads_->check();
  }

  /// Some of the addresses of an end for as many of ours; the last ones connect it.
  void meet(const nlohmann::json& message) {
    const uint64_t which = number_from(message, "end", ends_.size() - 1);
    LoadEnd& end = *ends_[which];
    std::vector<Address>& met = met_[which];
    const std::vector<Address> theirs = addresses_from(message.value("addresses", nlohmann::json()));
    const std::vector<Address> ours = end.addresses();
    if (met.size() + theirs.size() > ours.size())
      throw client::Failure("the client has too many queue pairs");
    const std::span<const Address> answer = std::span(ours).subspan(met.size(), theirs.size());
    met.insert(met.end(), theirs.begin(), theirs.end());
    if (met.size() == ours.size()) end.connect(met);
    channel_.send({{"addresses", to_json(answer)}});
  }

  void run(const LoadRun& wanted) {
    threads_.reset();
    for (size_t i = 0; i < ends_.size(); ++i) {
      if (met_[i].size() != ends_[i]->addresses().size())
        throw client::Failure("the client has too few queue pairs");
      LoadRun its = wanted;
      its.offset = static_cast<double>(i) / static_cast<double>(ends_.size());
      its.seed += i;
      ends_[i]->begin(its);
    }
    std::vector<std::vector<LoadEnd*>> lists;
    for (LoadEnd* const end : all_) lists.push_back({end});
    threads_ = std::make_unique<LoadThreads>(lists);
    cpu_ = {};
    channel_.send({{"ready", true}});
  }

  /// The client has drained: so does this, and then memory is compared.
  void finish(const nlohmann::json& claims) {
    if (!threads_ || !claims.is_array() || claims.size() != ends_.size())
      throw client::Failure("the client ends what has not begun");
    const CpuUse used = cpu_.used();
    await_drained(all_, [&] { look(); });
    for (size_t i = 0; i < ends_.size(); ++i)
      await_received(*ends_[i], claims_from(claims[i]).receives, is_reliable(plan_.service), [&] { look(); });
    nlohmann::json own = nlohmann::json::array();
    for (const auto& end : ends_) own.push_back(to_json(end->claims()));
    channel_.send({{"claims", own}, {"cpu_s", used.seconds}});
    // The client's end still answers; it says when it has got all.
    const nlohmann::json settled = next();
    if (!settled.contains("settled")) throw client::Failure("the client did not say that it has settled");
    threads_->stop();
    threads_.reset();
    LoadCounts counts;
    for (size_t i = 0; i < ends_.size(); ++i) counts.add(ends_[i]->finish(claims_from(claims[i]).atomics));
    verified_ += counts.bytes_verified;
    tell(channel_, counts);
  }

  client::Channel& channel_;
  client::VerbsDevice device_;
  const Plan& plan_;
  std::vector<std::unique_ptr<LoadEnd>> ends_;
  std::vector<LoadEnd*> all_;
  std::vector<std::vector<Address>> met_;  // of each end's peers
  std::unique_ptr<LoadThreads> threads_;
  CpuMeter cpu_;
  uint64_t verified_ = 0;
};

}  // namespace

uint64_t serve_load(client::Channel& channel, const client::DeviceChoice& choice, const Plan& plan,
                    const nlohmann::json& load) {
  return LoadSession(channel, choice, plan, load_from(load)).serve();
}

}  // namespace uroce::perf
