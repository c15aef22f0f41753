#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string_view>
#include <vector>

#include "base/counters/fault_counts.h"
#include "base/values/result.h"
#include "faults/receiver.h"
#include "faults/rule.h"
#include "port/port.h"

namespace uroce::engine {

class Poller;

/// The faults that packets of a device meet, as they are ordered and ended while its pollers run. Without any
/// there is nothing between a poller and its port.
class InjectedFaults {
 public:
  /// Rules of the configuration of a device that others share have numbers from here on; those below are the
  /// service's.
  static constexpr uint32_t kFirstConfigured = 1u << 16;

  /// `counts`: where they are kept, if others are to see them; of one poller.
  InjectedFaults(port::Port& port, std::span<FaultCounts> counts);

  // Any thread; pollers are turned.

  /// Adds a rule. ENOSPC: there are kRulesMax.
  Status add(std::span<const std::unique_ptr<Poller>> pollers, const faults::NumberedRule& rule);
  /// Removes a rule. False: there is none of that number.
  bool remove(std::span<const std::unique_ptr<Poller>> pollers, uint32_t id);

  struct Report {
    faults::NumberedRule rule;
    std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)> counts{};
  };
  [[nodiscard]] std::vector<Report> reports() const;

 private:
  /// Counts and receiver of one poller.
  struct Part {
    std::span<FaultCounts> counts;
    std::unique_ptr<faults::Receiver> receiver;
  };

  void apply(std::span<const std::unique_ptr<Poller>> pollers);
  void make_receivers(std::span<const std::unique_ptr<Poller>> pollers);
  static void leave(Poller& poller, faults::Receiver& receiver);

  port::Port& port_;
  std::vector<FaultCounts> own_counts_;
  mutable std::mutex mutex_;  // of what follows
  std::vector<faults::NumberedRule> rules_;
  std::vector<Part> parts_;  // by poller, once there was a rule
  std::span<FaultCounts> shared_counts_;
};

}  // namespace uroce::engine
