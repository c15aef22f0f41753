#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "block/block.h"
#include "nvmf/rdma/transport.h"
#include "nvmf/subsystem/target.h"
#include "nvmf_host/rdma_session.h"

namespace uroce::testing {

using namespace nvmf_host;

inline constexpr const char* kDisks = "nqn.2026-11.example:disks";
inline constexpr uint32_t kNull = 1, kRam = 2, kFile = 3;  // namespaces

/// A target that listens on the embedded default's second device, with a namespace of each driver in one
/// subsystem; a host uses the first device.
class Exported : public ::testing::Test {
 protected:
  static constexpr uint32_t kBlockBytes = 512;
  static constexpr uint64_t kBytes = 8 << 20;

  /// Exports with these options, in place of what was before.
  void open(const nvmf::RdmaOptions& options = {});
  void close();
  void TearDown() override { close(); }

  /// A namespace of this device.
  void add(uint32_t nsid, std::unique_ptr<block::Device> device);

  /// The target's clock jumps.
  static void advance(Duration by);
  /// The target's clock stands still, but for advance(), until the test ends.
  static void freeze();
  /// Waits until so many queues are left; false: not within a time that is hopeless.
  [[nodiscard]] bool comes_down_to(size_t queues) const;
  /// How often it happened.
  [[nodiscard]] uint64_t count(nvmf::RdmaEvent event) const {
    return transport->events()[static_cast<size_t>(event)];
  }

  /// A session's options.
  [[nodiscard]] static RdmaSession::Options host(uint32_t entries = 32);

  std::unique_ptr<nvmf::Target> target;
  std::unique_ptr<nvmf::RdmaTransport> transport;
  std::filesystem::path file;
};

/// One I/O command of `bytes`, with data in the slot's memory.
nvmf::Command io(RdmaHostQueue& queue, uint8_t opcode, uint32_t nsid, uint64_t block, uint32_t bytes,
                 uint16_t cid = 0);
/// Fills memory with bytes that differ from those of other seeds.
void fill(std::span<std::byte> memory, uint32_t seed);
[[nodiscard]] bool is_filled(std::span<const std::byte> memory, uint32_t seed);

}  // namespace uroce::testing
