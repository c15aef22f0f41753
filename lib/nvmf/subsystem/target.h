#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/values/result.h"
#include "nvmf/subsystem/namespace_counters.h"
#include "nvmf/subsystem/options.h"

namespace uroce::nvmf {

class Subsystem;

/// All that is exported: subsystems, the hosts that may see them, and where. Any thread; calls are for the
/// control path, and take effect for a queue with its next poll() at the latest. The discovery subsystem is
/// always there.
class Target {
 public:
  explicit Target(TargetOptions options);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  // Errors name what is wrong: EINVAL, EEXIST, ENOENT.
  Status add_subsystem(SubsystemOptions options);
  /// Its controllers end: queues turn ending(), and it is gone for good when the last of them is destroyed.
  Status remove_subsystem(std::string_view nqn);
  Status add_namespace(std::string_view nqn, NamespaceOptions options);
  /// No new command reaches it. It is destroyed by collect() when those under way have been released.
  Status remove_namespace(std::string_view nqn, uint32_t nsid);
  Status set_hosts(std::string_view nqn, std::vector<std::string> hosts, bool allow_any_host);
  Status set_ana_state(std::string_view nqn, uint32_t group, AnaState state);
  Status add_listener(Listener listener);
  Status remove_listener(std::string_view address, std::string_view service);

  /// Destroys namespaces and subsystems that were removed and that no queue uses any more (the thread that
  /// calls closes the devices). How many are still in use.
  size_t collect();

  // For queues.
  /// nullptr: there is none. The discovery subsystem, too.
  [[nodiscard]] std::shared_ptr<Subsystem> find(std::string_view nqn);
  struct Discovery {
    struct Entry {
      std::string nqn;
      Listener listener;
    };
    uint64_t generation = 0;
    std::vector<Entry> entries;
  };
  /// What this host may use, and where.
  [[nodiscard]] Discovery discovery(std::string_view host_nqn);

  struct NamespaceReport {
    std::string nqn;
    uint32_t nsid = 0;
    NamespaceTotals totals;
  };
  /// What was done with each namespace that is attached, so far.
  [[nodiscard]] std::vector<NamespaceReport> report();

 private:
  [[nodiscard]] Result<std::shared_ptr<Subsystem>> known(std::string_view nqn);
  /// Hosts that ask for the discovery log are told, and those that wait for news.
  void changed();

  const TargetOptions options_;
  const std::shared_ptr<Subsystem> discovery_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Subsystem>, std::less<>> subsystems_;
  std::vector<std::shared_ptr<Subsystem>> leaving_;
  std::vector<Listener> listeners_;
  uint64_t generation_ = 0;  // of the discovery log
};

}  // namespace uroce::nvmf
