#include "nvmf_rdma_property.h"

#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "choices.h"
#include "drivers/block_registry.h"
#include "engine/platform/clock.h"
#include "nvmf/rdma/transport.h"
#include "nvmf/subsystem/target.h"
#include "nvmf_host/rdma_session.h"
#include "tests/nvmf/rdma_stranger.h"

namespace uroce::fuzz {
namespace {

using namespace uroce::nvmf_host;
using nvmf::Command;
using nvmf::RdmaEvent;
using uroce::testing::RdmaStranger;

constexpr const char* kDisks = "nqn.2026-11.example:disks";
constexpr uint32_t kDevices = 2;
constexpr uint64_t kDeviceBytes = 1 << 20;
constexpr size_t kActors = 6;
constexpr auto kHopeless = std::chrono::seconds(60);

std::atomic<int64_t> ahead_ns{0};
Instant clock_ahead() { return engine::MachineClocks::system() + nanoseconds(ahead_ns.load()); }

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// The target that all inputs meet.
class Victim {
 public:
  explicit Victim(bool shared_receives) : target_({.firmware = "1"}) {
    nvmf::RdmaOptions options;
    options.clock = clock_ahead;
    options.shared_receives = shared_receives;
    options.shared_receive_entries = 256;
    options.large_buffers = 8;
    options.small_buffers = 32;
    options.queues_max = 64;
    options.pending_per_host = 8;
    auto opened = nvmf::RdmaTransport::open(target_, options);
    require(opened.ok(), "the transport does not open");
    transport_ = std::move(*opened);
    require(target_.add_subsystem({.nqn = kDisks, .serial = "1", .allow_any_host = true}).ok(),
            "no subsystem");
    for (uint32_t nsid = 1; nsid <= kDevices; ++nsid) {
      auto device = drivers::open_block_device(
          {.driver = nsid == 1 ? "ram" : "null", .size_bytes = kDeviceBytes, .block_bytes = 512});
      require(device.ok(), "no device");
      require(target_
                  .add_namespace(
                      kDisks, {.nsid = nsid,
                               .device = with_registered_memory(transport_->regions(), std::move(*device))})
                  .ok(),
              "no namespace");
    }
    require(transport_->listen("192.0.2.2", 4420).ok(), "it does not listen");
  }
  ~Victim() { transport_->stop(); }

  [[nodiscard]] nvmf::RdmaEventTotals events() const { return transport_->events(); }

  /// Waits until no queue is left.
  void expect_no_queue() {
    const auto deadline = std::chrono::steady_clock::now() + kHopeless;
    while (!transport_->report().empty()) {
      require(std::chrono::steady_clock::now() < deadline, "a queue does not end");
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }

  void expect_service() {
    RdmaSession session({.subsystem_nqn = kDisks, .queue = {.slot_bytes = 64 << 10}});
    RdmaHostQueue& queue = session.connect_io(1);
    Command command = command::blocks(command::kWrite, 1, 0, 64);
    command.sgl = queue.host_memory(0, 32 << 10);
    for (const uint8_t opcode : {command::kWrite, command::kRead}) {
      command.opcode = opcode;
      const auto completion = queue.run(command);
      require(completion && code_of(*completion) == nvmf::StatusCode::kSuccess, "no service for others");
    }
  }

 private:
  nvmf::Target target_;
  std::unique_ptr<nvmf::RdmaTransport> transport_;
};

/// Capsules of a host, which its Connect succeeded or not.
class FuzzedHost {
 public:
  FuzzedHost(Choices& choices, RdmaDepth& depth) : depth_(depth), queue_(options(choices)) {}

  void act(Choices& choices) {
    switch (choices.below(8)) {
      case 0:
        return send(choices, connect(choices), 0);
      case 1:
        return send(choices, command::set_property(nvmf::Property::kConfiguration, 1 | 6u << 16 | 4u << 20),
                    0);
      case 2:
        return send(choices, raw_command(choices), choices.below(8300));
      case 3:
        return queue_.disconnect();
      case 4:
        return poll();
      default:
        for (uint32_t i = choices.below(40); i > 0; --i)
          send(choices, valid(choices), choices.below(2) * 4096);
        return;
    }
  }

 private:
  static RdmaHostQueue::Options options(Choices& choices) {
    RdmaHostQueue::Options made;
    made.qid = static_cast<uint16_t>(choices.below(3));
    made.entries = 2 + choices.below(62);
    made.slot_bytes = 16 << 10;
    if (choices.once_in(3)) made.receives = choices.below(4);
    made.reads_answered = static_cast<uint8_t>(choices.below(17));
    if (choices.once_in(4)) made.ack_timeout = choices.once_in(2) ? uint8_t{31} : uint8_t{0};
    return made;
  }

  Command connect(Choices& choices) {
    nvmf::ConnectData data{};
    data.host_id[0] = 1;
    data.controller_id =
        choices.once_in(2) ? nvmf::kDynamicController : static_cast<uint16_t>(choices.below(8));
    const std::string name = choices.once_in(4) ? std::string(nvmf::kDiscoveryNqn) : kDisks;
    std::memcpy(data.subsystem_nqn, name.data(), name.size());
    if (choices.once_in(2)) std::memcpy(data.host_nqn, "nqn.2026-11.example:host", 24);
    if (choices.once_in(16)) data.host_nqn[choices.below(200)] = static_cast<char>(choices.bytes(1));
    std::memcpy(queue_.memory(0).data(), &data, sizeof(data));
    Command command =
        command::connect(static_cast<uint16_t>(choices.below(3)), static_cast<uint16_t>(queue_.slots() - 1));
    command.sgl = queue_.host_memory(0, sizeof(data));
    return command;
  }

  Command valid(Choices& choices) {
    constexpr std::array<uint8_t, 6> kOpcodes{command::kRead,  command::kWrite,      command::kCompare,
                                              command::kFlush, command::kGetLogPage, command::kIdentify};
    const uint32_t blocks = 1 + choices.below(32);
    Command command = command::blocks(kOpcodes[choices.below(kOpcodes.size())], 1 + choices.below(kDevices),
                                      choices.below(1024), blocks);
    command.cid = static_cast<uint16_t>(choices.below(queue_.slots()));
    command.sgl = choices.once_in(4) ? RdmaHostQueue::in_capsule(blocks * 512, choices.below(4096))
                                     : queue_.host_memory(command.cid, blocks * 512);
    if (choices.once_in(64)) command.sgl.specific[3] ^= 1;                                // the key
    if (choices.once_in(8)) command.flags |= static_cast<uint8_t>(1 + choices.below(2));  // fused
    return command;
  }

  static Command raw_command(Choices& choices) {
    std::array<uint8_t, sizeof(Command)> bytes;
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(choices.bytes(1));
    Command command{};
    std::memcpy(&command, bytes.data(), bytes.size());
    return command;
  }

  /// With so many bytes behind the command, or sometimes less than a command.
  void send(Choices& choices, const Command& command, uint32_t data_bytes) {
    std::vector<std::byte> bytes(sizeof(command) + data_bytes);
    std::memcpy(bytes.data(), &command, sizeof(command));
    if (choices.once_in(32)) bytes[choices.below(64)] ^= static_cast<std::byte>(1u << choices.below(8));
    if (choices.once_in(128)) bytes.resize(choices.below(64));
    bytes.resize(std::min(bytes.size(), sizeof(command) + RdmaHostQueue::Options{}.in_capsule_bytes));
    queue_.send_bytes(static_cast<uint16_t>(choices.below(queue_.slots())), bytes);
    ++depth_.capsules;
    poll();
  }

  void poll() {
    std::array<nvmf::Completion, 32> came;
    while (queue_.poll(came) != 0) {
    }
    static_cast<void>(queue_.has_ended());
  }

  RdmaDepth& depth_;
  RdmaHostQueue queue_;
};

/// A peer of the target: a handshake that goes any way, or a host.
class Actor {
 public:
  explicit Actor(RdmaDepth& depth) : depth_(depth) {}

  void act(Choices& choices) {
    if (host_ && !choices.once_in(16)) return host_->act(choices);
    host_.reset();
    if (choices.once_in(3)) return become_host(choices);
    shake_hands(choices);
  }

 private:
  void become_host(Choices& choices) {
    ++depth_.requests;
    try {
      host_ = std::make_unique<FuzzedHost>(choices, depth_);
    } catch (const std::runtime_error&) {
      // Refused, or ended before it was there.
    }
  }

  void shake_hands(Choices& choices) {
    switch (choices.below(7)) {
      case 0:
      case 1:
        ++depth_.requests;
        stranger_.request_queue(static_cast<uint16_t>(choices.below(4)));
        accepted_ = false;
        return;
      case 2: {
        std::vector<std::byte> data(choices.below(57));
        for (std::byte& byte : data) byte = static_cast<std::byte>(choices.bytes(1));
        ++depth_.requests;
        stranger_.request(data, choices.below(1 << 24));
        accepted_ = false;
        return;
      }
      case 3:
        accepted_ = stranger_.wait_ms(static_cast<int>(choices.below(4))) == RdmaStranger::Answer::kAccepted;
        return;
      case 4:
        if (accepted_) stranger_.establish();
        return;
      case 5:
        if (accepted_) choices.once_in(2) ? stranger_.reject() : stranger_.disconnect();
        return;
      default:
        accepted_ = false;
        return stranger_.withdraw();
    }
  }

  RdmaDepth& depth_;
  RdmaStranger stranger_;
  bool accepted_ = false;
  std::unique_ptr<FuzzedHost> host_;
};

}  // namespace

RdmaDepth check_rdma_hosts(std::span<const std::byte> input) {
  // Never destroyed: a process may end while it serves.
  struct State {
    RdmaDepth depth;
    nvmf::RdmaEventTotals of_victims_before{};
    std::optional<Victim> victim;
    uint64_t inputs = 0;
  };
  static State& state = *new State;
  // Now and then a new one.
  constexpr uint64_t kInputsOfVictim = 64;
  if (state.inputs % kInputsOfVictim == 0) {
    state.of_victims_before = state.depth.events;
    state.victim.reset();
    state.victim.emplace(state.inputs / kInputsOfVictim % 2 == 0);
  }
  ++state.inputs;
  Choices choices(input);
  {
    std::deque<Actor> actors;
    for (size_t i = 0; i < kActors; ++i) actors.emplace_back(state.depth);
    while (!choices.over()) {
      if (choices.once_in(40)) {
        ahead_ns += seconds(choices.below(12)).ns;
        continue;
      }
      actors[choices.below(kActors)].act(choices);
    }
    state.victim->expect_service();
  }
  // What has no host any more ends by the clock, if by nothing else.
  ahead_ns += seconds(60).ns;
  state.victim->expect_no_queue();
  state.victim->expect_service();
  const nvmf::RdmaEventTotals now = state.victim->events();
  for (size_t i = 0; i < now.size(); ++i) state.depth.events[i] = state.of_victims_before[i] + now[i];
  return state.depth;
}

}  // namespace uroce::fuzz
