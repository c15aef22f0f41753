#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "block/block.h"
#include "nvmf/queue.h"

namespace uroce::nvmf {

class Subsystem;

/// Asymmetric namespace access (NVMe 1.4, section 8.20): what the wire calls the states.
enum class AnaState : uint8_t {
  kOptimized = 1,
  kNonOptimized = 2,
  kInaccessible = 3,
  kPersistentLoss = 4,
  kChange = 15,
};

struct NamespaceOptions {
  uint32_t nsid = 1;  // 1 to kNsidMax
  std::unique_ptr<block::Device> device;
  // Names; all zeroes: none. A namespace has one at least: without any, the UUID is derived from the
  // subsystem's NQN and the nsid, so that it is the same the next time.
  std::array<uint8_t, 16> uuid{};
  std::array<uint8_t, 16> nguid{};
  std::array<uint8_t, 8> eui64{};
  bool read_only = false;
  uint32_t ana_group = 1;  // 1 to kAnaGroupMax
};

struct SubsystemOptions {
  std::string nqn;
  std::string serial;              // at most 20 printable characters
  std::string model = "uroce";     // at most 40
  std::vector<std::string> hosts;  // NQNs that may connect
  bool allow_any_host = false;
  uint16_t io_queues_max = 128;  // that one controller grants
  uint16_t controllers_max = 256;
};

/// Where hosts find us: an entry of the discovery log page.
struct Listener {
  uint8_t transport = 1;       // TRTYPE: RDMA
  uint8_t address_family = 1;  // ADRFAM: 1 IPv4, 2 IPv6
  std::string address;         // TRADDR
  std::string service;         // TRSVCID
  uint16_t port_id = 1;
};

struct TargetOptions {
  std::string firmware;  // revision, at most 8 characters; the program's version
};

/// All that is exported: subsystems, who may see them, and where. Any thread; calls are for the control path,
/// and take effect for queues with their next poll(). The discovery subsystem is always there.
class Target {
 public:
  static constexpr uint32_t kNsidMax = 1024;
  static constexpr uint32_t kAnaGroupMax = 32;

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

  /// The thread that is to turn it.
  std::unique_ptr<Queue> open_queue(QueueOptions options);

 private:
  friend class Queue;
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace uroce::nvmf
