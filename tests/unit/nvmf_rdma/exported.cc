#include "exported.h"

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "drivers/block_registry.h"
#include "engine/platform/clock.h"

namespace uroce::testing {
namespace {

std::atomic<int64_t> ahead_ns{0};
std::atomic<int64_t> frozen_at_ns{0};  // 0: the clock goes on

Instant clock_ahead() {
  const int64_t frozen = frozen_at_ns.load();
  return (frozen != 0 ? Instant{frozen} : engine::MachineClocks::system()) + nanoseconds(ahead_ns.load());
}

}  // namespace

void Exported::advance(Duration by) { ahead_ns += by.ns; }

void Exported::freeze() { frozen_at_ns = engine::MachineClocks::system().ns; }

bool Exported::comes_down_to(size_t queues) const {
  constexpr int kTries = 6'000;
  for (int i = 0; i < kTries; ++i) {
    if (transport->report().size() <= queues) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

void Exported::open(const nvmf::RdmaOptions& options) {
  close();
  target = std::make_unique<nvmf::Target>(nvmf::TargetOptions{.firmware = "1"});
  nvmf::RdmaOptions with_clock = options;
  with_clock.clock = clock_ahead;
  auto opened = nvmf::RdmaTransport::open(*target, with_clock);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  transport = std::move(*opened);
  ASSERT_TRUE(target->add_subsystem({.nqn = kDisks, .serial = "1", .allow_any_host = true}).ok());
  file = std::filesystem::temp_directory_path() / ("uroce_nvmf_rdma_" + std::to_string(getpid()));
  std::ofstream(file).close();
  std::filesystem::resize_file(file, kBytes);
  const drivers::BlockSpecification specifications[] = {
      {.driver = "null", .size_bytes = kBytes, .block_bytes = kBlockBytes},
      {.driver = "ram", .size_bytes = kBytes, .block_bytes = kBlockBytes},
      {.driver = "file", .path = file.string()}};
  for (uint32_t i = 0; i < std::size(specifications); ++i) {
    auto device = drivers::open_block_device(specifications[i]);
    ASSERT_TRUE(device.ok()) << device.error().message;
    add(i + 1, std::move(*device));
  }
  const Status listening = transport->listen("192.0.2.2", 4420);
  ASSERT_TRUE(listening.ok()) << listening.error().message;
}

void Exported::add(uint32_t nsid, std::unique_ptr<block::Device> device) {
  const Status added = target->add_namespace(
      kDisks, {.nsid = nsid, .device = with_registered_memory(transport->regions(), std::move(device))});
  ASSERT_TRUE(added.ok()) << added.error().message;
}

void Exported::close() {
  if (transport) transport->stop();
  transport.reset();
  target.reset();
  if (!file.empty()) std::filesystem::remove(file);
  frozen_at_ns = 0;
}

RdmaSession::Options Exported::host(uint32_t entries) {
  RdmaSession::Options options{.subsystem_nqn = kDisks};
  options.queue.entries = entries;
  return options;
}

nvmf::Command io(RdmaHostQueue& queue, uint8_t opcode, uint32_t nsid, uint64_t block, uint32_t bytes,
                 uint16_t cid) {
  nvmf::Command made = command::blocks(opcode, nsid, block, bytes / 512);
  made.cid = cid;
  made.sgl = queue.host_memory(cid, bytes);
  return made;
}

void fill(std::span<std::byte> memory, uint32_t seed) {
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = static_cast<std::byte>((i * 2654435761u + seed * 40503u) >> 11);
}

bool is_filled(std::span<const std::byte> memory, uint32_t seed) {
  for (size_t i = 0; i < memory.size(); ++i) {
    if (memory[i] != static_cast<std::byte>((i * 2654435761u + seed * 40503u) >> 11)) return false;
  }
  return true;
}

}  // namespace uroce::testing
