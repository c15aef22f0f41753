// A host that does what its arguments say, one after the other, on one I/O queue:
//
//   nvmf_host TARGET OWN SUBSYSTEM HOST [namespaces | write:NSID:SEED | verify:NSID:SEED | time:NSID:COUNT]
//   ...
//
// TARGET and OWN are addresses, SUBSYSTEM and HOST names. Says what it found, of `time` how long it took to
// connect and the median of so many reads of 4 KiB, one after the other; 1 when something failed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "nvmf_host/rdma_session.h"

namespace uroce::testing {

using namespace nvmf_host;
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kBytes = 64 << 10;
constexpr uint32_t kTimedBytes = 4 << 10;

double microseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::micro>(duration).count();
}

std::byte pattern(size_t at, unsigned seed) {
  return static_cast<std::byte>((at * 2654435761u + seed * 40503u) >> 11);
}

class Host {
 public:
  explicit Host(RdmaSession::Options options)
      : session_(std::move(options)),
        began_(Clock::now()),
        queue_(session_.connect_io(1)),
        connected_in_us_(microseconds(Clock::now() - began_)) {}

  void namespaces() {
    nvmf::Command identify = command::identify(nvmf::IdentifyCode::kActiveNamespaces);
    identify.sgl = session_.admin().host_memory(0, nvmf::kIdentifyBytes);
    expect_success("identify", session_.admin().run(identify));
    const auto* const nsids = reinterpret_cast<const uint32_t*>(session_.admin().memory(0).data());
    std::printf("namespaces");
    for (size_t i = 0; i < nvmf::kIdentifyBytes / 4 && nsids[i] != 0; ++i) std::printf(" %u", nsids[i]);
    std::printf("\n");
  }

  void write(uint32_t nsid, unsigned seed) {
    const std::span<std::byte> memory = queue_.memory(0).first(kBytes);
    for (size_t i = 0; i < memory.size(); ++i) memory[i] = pattern(i, seed);
    expect_success("write", move(command::kWrite, nsid, kBytes));
  }

  void verify(uint32_t nsid, unsigned seed) {
    std::ranges::fill(queue_.memory(0), std::byte{});
    expect_success("read", move(command::kRead, nsid, kBytes));
    const std::span<std::byte> memory = queue_.memory(0).first(kBytes);
    for (size_t i = 0; i < memory.size(); ++i)
      if (memory[i] != pattern(i, seed)) throw std::runtime_error("byte " + std::to_string(i) + " is wrong");
    std::printf("namespace %u is right\n", nsid);
  }

  void time(uint32_t nsid, unsigned count) {
    std::vector<double> samples(count);
    for (double& sample : samples) {
      const Clock::time_point began = Clock::now();
      expect_success("read", move(command::kRead, nsid, kTimedBytes));
      sample = microseconds(Clock::now() - began);
    }
    std::ranges::sort(samples);
    if (count > 0)
      std::printf("connected in %.1f us, read in %.1f us\n", connected_in_us_, samples[count / 2]);
  }

 private:
  std::optional<nvmf::Completion> move(uint8_t opcode, uint32_t nsid, uint32_t bytes) {
    nvmf::Command command = command::blocks(opcode, nsid, 0, bytes / 512);
    command.sgl = queue_.host_memory(0, bytes);
    return queue_.run(command);
  }

  RdmaSession session_;
  const Clock::time_point began_;  // to connect the I/O queue
  RdmaHostQueue& queue_;
  const double connected_in_us_;
};

void perform(Host& host, const std::string& action) {
  unsigned nsid = 0, seed = 0, count = 0;
  if (action == "namespaces") return host.namespaces();
  if (std::sscanf(action.c_str(), "write:%u:%u", &nsid, &seed) == 2) return host.write(nsid, seed);
  if (std::sscanf(action.c_str(), "verify:%u:%u", &nsid, &seed) == 2) return host.verify(nsid, seed);
  if (std::sscanf(action.c_str(), "time:%u:%u", &nsid, &count) == 2) return host.time(nsid, count);
  throw std::runtime_error("no such action: " + action);
}

}  // namespace
}  // namespace uroce::testing

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() < 5) return 2;
  try {
    uroce::testing::RdmaSession::Options options{.subsystem_nqn = words[2], .host_nqn = words[3]};
    options.queue.target_address = words[0];
    options.queue.own_address = words[1];
    // Both queues together within what an ordinary user may lock (8 MiB).
    options.queue.slot_bytes = uroce::testing::kBytes;
    uroce::testing::Host host(std::move(options));
    for (size_t i = 4; i < words.size(); ++i) uroce::testing::perform(host, words[i]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "nvmf_host: %s\n", error.what());
    return 1;
  }
}
