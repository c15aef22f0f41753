#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "block/block.h"

namespace uroce::nvmf {

inline constexpr uint32_t kNsidMax = 1024;
inline constexpr uint32_t kAnaGroupMax = 32;

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
  std::array<uint8_t, 8> specific{1, 4, 1};  // first bytes of TSAS: reliable connected, RoCEv2, RDMA_CM
};

struct TargetOptions {
  std::string firmware;  // revision, at most 8 characters; the program's version
};

}  // namespace uroce::nvmf
