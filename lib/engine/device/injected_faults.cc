#include "engine/device/injected_faults.h"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>

#include "engine/poller/poller.h"

namespace uroce::engine {

InjectedFaults::InjectedFaults(port::Port& port, std::span<FaultCounts> counts)
    : port_(port), shared_counts_(counts) {}

Status InjectedFaults::add(std::span<const std::unique_ptr<Poller>> pollers,
                           const faults::NumberedRule& rule) {
  const std::lock_guard guard(mutex_);
  if (rules_.size() == faults::kRulesMax)
    return Error{ENOSPC, fmt::format("there are {} faults already", faults::kRulesMax)};
  make_receivers(pollers);
  rules_.push_back(rule);
  apply(pollers);
  return {};
}

bool InjectedFaults::remove(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id) {
  const std::lock_guard guard(mutex_);
  const auto found = std::ranges::find(rules_, id, &faults::NumberedRule::id);
  if (found == rules_.end()) return false;
  rules_.erase(found);
  apply(pollers);
  return true;
}

void InjectedFaults::make_receivers(std::span<const std::unique_ptr<Poller>> pollers) {
  if (!parts_.empty()) return;
  const bool shared = !shared_counts_.empty() && pollers.size() == 1;
  if (!shared) own_counts_ = std::vector<FaultCounts>(pollers.size() * faults::kRulesMax);
  for (const auto& poller : pollers) {
    const uint16_t index = poller->index();
    Part& part = parts_.emplace_back();
    part.counts = shared ? shared_counts_
                         : std::span(own_counts_).subspan(index * faults::kRulesMax, faults::kRulesMax);
    poller->run([&](qp::Turn& turn) {
      part.receiver = std::make_unique<faults::Receiver>(
          faults::Receiver::Options{.port = port_.queue(index),
                                    .now = turn.now,
                                    .counters = turn.counters,
                                    .counts = part.counts,
                                    .frame_bytes = port_.capabilities().frame_bytes_max,
                                    .salt = index});
    });
  }
}

void InjectedFaults::apply(std::span<const std::unique_ptr<Poller>> pollers) {
  for (size_t i = 0; i < pollers.size(); ++i) {
    faults::Receiver* const receiver = parts_[i].receiver.get();
    if (receiver == nullptr) continue;  // the poller is closed
    pollers[i]->run([&](qp::Turn&) {
      receiver->set(rules_);
      pollers[i]->set_faults(receiver);
    });
    if (rules_.empty()) leave(*pollers[i], *receiver);
  }
}

/// Takes faults away from a poller, after it has received what they delay.
void InjectedFaults::leave(Poller& poller, faults::Receiver& receiver) {
  bool left = false;
  // Each turn receives a burst; without buffers for so long, the rest is lost.
  for (uint32_t turns = faults::Receiver::kDelayedMax; turns > 0 && !left; --turns) {
    const bool ran = poller.run([&](qp::Turn&) {
      left = !receiver.has_delayed() || turns == 1;
      if (left) poller.set_faults(nullptr);
    });
    if (!ran) return;
  }
}

std::vector<InjectedFaults::Report> InjectedFaults::reports() const {
  const std::lock_guard guard(mutex_);
  std::vector<Report> reports;
  for (const faults::NumberedRule& rule : rules_) {
    Report& report = reports.emplace_back(Report{.rule = rule});
    for (const Part& part : parts_) {
      // Acquire: pairs with the writer of the number.
      const auto its = std::ranges::find_if(part.counts, [&](const FaultCounts& counts) {
        return counts.id.load(std::memory_order_acquire) == rule.id;
      });
      if (its == part.counts.end()) continue;
      for (size_t i = 0; i < report.counts.size(); ++i)
        report.counts[i] += its->read(static_cast<FaultCount>(i));
    }
  }
  return reports;
}

}  // namespace uroce::engine
