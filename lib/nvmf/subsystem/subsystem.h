#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"
#include "base/values/time.h"
#include "nvmf/subsystem/controller.h"
#include "nvmf/subsystem/io_counters.h"
#include "nvmf/subsystem/namespace.h"

namespace uroce::nvmf {

/// What one NQN stands for: namespaces, the hosts that may see them, and the controllers through which they
/// do. Any thread.
class Subsystem {
 public:
  enum class Kind : uint8_t { kNvm, kDiscovery };

  Subsystem(SubsystemOptions options, Kind kind, std::string firmware);

  [[nodiscard]] const std::string& nqn() const { return options_.nqn; }
  [[nodiscard]] const std::string& serial() const { return options_.serial; }
  [[nodiscard]] const std::string& model() const { return options_.model; }
  [[nodiscard]] const std::string& firmware() const { return firmware_; }
  [[nodiscard]] uint16_t io_queues_max() const { return options_.io_queues_max; }
  [[nodiscard]] bool is_discovery() const { return kind_ == Kind::kDiscovery; }

  // Hosts.
  [[nodiscard]] bool allows(std::string_view host_nqn);
  /// Controllers of hosts that may not stay end.
  void set_hosts(std::vector<std::string> hosts, bool allow_any_host);

  // Namespaces.
  Status attach(NamespaceOptions options);
  Status detach(uint32_t nsid);
  /// Changes when namespaces come or go.
  [[nodiscard]] uint64_t generation() const {
    // Pairs with the release in attach() and detach(); what is read then is read under the lock.
    return generation_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::shared_ptr<Namespace> find(uint32_t nsid);
  /// In the order of NSIDs.
  [[nodiscard]] std::vector<std::shared_ptr<Namespace>> namespaces();
  /// Destroys those that are detached and not in use; how many are still used.
  size_t collect();

  // Asymmetric access.
  void set_ana_state(uint32_t group, AnaState state);
  struct AnaGroup {
    uint32_t group = 0;
    AnaState state = AnaState::kOptimized;
    uint64_t changes = 0;
    std::vector<uint32_t> nsids;
  };
  struct AnaReport {
    uint64_t changes = 0;
    std::vector<AnaGroup> groups;  // that have namespaces
  };
  [[nodiscard]] AnaReport ana();

  // Controllers.
  /// nullptr: as many as there may be.
  std::shared_ptr<Controller> associate(const std::shared_ptr<Subsystem>& self,
                                        Controller::Identity identity);
  [[nodiscard]] std::shared_ptr<Controller> find_controller(uint16_t id);
  void forget(const Controller& controller);
  void notify(Notice notice);
  /// No new controllers; those that there are end.
  void close();

  // Counters.
  std::shared_ptr<IoCounters> open_counters();
  /// The counters of all queues that there are or were.
  [[nodiscard]] IoTotals totals();
  /// Since the first host came.
  [[nodiscard]] Duration age(Instant now);

 private:
  std::vector<std::shared_ptr<Controller>> controllers();
  void add_past_counters();  // under the lock

  SubsystemOptions options_;  // hosts and allow_any_host under the lock
  const Kind kind_;
  const std::string firmware_;
  std::atomic<uint64_t> generation_{1};
  std::array<std::atomic<AnaState>, kAnaGroupMax + 1> ana_states_;

  std::mutex mutex_;
  std::map<uint32_t, std::shared_ptr<Namespace>> namespaces_;
  std::vector<std::shared_ptr<Namespace>> leaving_;
  std::array<uint64_t, kAnaGroupMax + 1> ana_changes_{};
  uint64_t ana_change_count_ = 0;
  std::map<uint16_t, std::weak_ptr<Controller>> controllers_;
  uint16_t last_controller_ = 0;
  bool closed_ = false;
  std::vector<std::shared_ptr<IoCounters>> counters_;
  IoTotals past_{};
  std::optional<Instant> first_host_at_;
};

}  // namespace uroce::nvmf
