#include "nvmf_property.h"

#include <array>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "choices.h"
#include "tests/nvmf/host.h"
#include "tests/nvmf/scripted_device.h"

namespace uroce::fuzz {

namespace {

using namespace uroce::testing;
using nvmf::Command;

void require(bool holds, const char* what) {
  if (!holds) throw std::logic_error(what);
}

/// Numbers that decide something, and others.
uint32_t number(Choices& choices) {
  switch (choices.below(6)) {
    case 0:
      return 0;
    case 1:
      return choices.below(4);
    case 2:
      return choices.below(300);
    case 3:
      return choices.below(0x10000);
    case 4:
      return UINT32_MAX - choices.below(3);
    default:
      return static_cast<uint32_t>(choices.bytes(4));
  }
}

uint32_t namespace_id(Choices& choices) {
  return choices.once_in(8) ? number(choices) : 1 + choices.below(3);
}

Command raw_command(Choices& choices) {
  Command command{};
  std::array<uint8_t, sizeof(Command)> bytes;
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(choices.bytes(1));
  std::memcpy(&command, bytes.data(), bytes.size());
  return command;
}

Command io_command(Choices& choices) {
  constexpr std::array<uint8_t, 7> kOpcodes = {command::kFlush,       command::kWrite,
                                               command::kRead,        command::kCompare,
                                               command::kWriteZeroes, command::kDatasetManagement,
                                               command::kVerify};
  const uint8_t opcode = kOpcodes[choices.below(kOpcodes.size())];
  Command made = command::blocks(opcode, namespace_id(choices), choices.below(70), 1 + choices.below(16));
  if (opcode == command::kFlush && choices.once_in(2)) made.nsid = nvmf::kAllNamespaces;
  if (opcode == command::kDatasetManagement) made.dword11 = choices.below(8);
  if (choices.once_in(4)) made.flags = static_cast<uint8_t>(choices.bytes(1));
  if (choices.once_in(8)) made.dword11 = number(choices);
  if (choices.once_in(8)) made.dword12 = number(choices);
  return made;
}

Command admin_command(Choices& choices) {
  constexpr std::array<uint8_t, 7> kOpcodes = {
      command::kGetLogPage,  command::kIdentify,          command::kAbort,    command::kSetFeatures,
      command::kGetFeatures, command::kAsyncEventRequest, command::kKeepAlive};
  Command made = command::make(kOpcodes[choices.below(kOpcodes.size())], namespace_id(choices));
  made.dword10 = choices.below(16) | choices.below(16) << 16;
  if (choices.once_in(4)) made.dword10 = number(choices);
  if (choices.once_in(4)) made.dword11 = number(choices);
  if (choices.once_in(4)) made.dword12 = number(choices);
  return made;
}

Command fabrics_command(Choices& choices) {
  switch (choices.below(4)) {
    case 0:
      return command::get_property(static_cast<nvmf::Property>(choices.below(9) * 4), choices.once_in(4));
    case 1:
      return command::set_property(nvmf::Property::kConfiguration,
                                   choices.once_in(2) ? kEnabled : number(choices));
    case 2:
      return command::fabrics(nvmf::FabricsType::kDisconnect);
    default:
      return command::connect(static_cast<uint16_t>(choices.below(4)),
                              static_cast<uint16_t>(choices.below(40)), number(choices),
                              static_cast<uint8_t>(choices.below(8)));
  }
}

class Scene {
 public:
  Scene() {
    check(target_.add_subsystem({.nqn = kSubsystem, .allow_any_host = true, .controllers_max = 4}));
    check(target_.add_listener({.address = "192.0.2.1", .service = "4420"}));
    for (uint32_t nsid = 1; nsid <= 3; ++nsid) attach(nsid);
    for (size_t i = 0; i < kQueues; ++i) reopen(i, true);
  }

  void act(Choices& choices) {
    const size_t index = choices.below(kQueues);
    HostQueue& queue = *queues_[index];
    switch (choices.below(16)) {
      case 0:
      case 1:
      case 2:
      case 3:
      case 4:
        return receive(queue, choices);
      case 5:
      case 6:
      case 7:
      case 8:
        return go_on(queue, choices);
      case 9:
      case 10:
      case 11:
        return poll(queue);
      case 12:
        return script(choices);
      case 13:
        return choices.once_in(2) ? configure(choices) : act_in_order(queue, choices);
      case 14:
        if (choices.once_in(4)) queue.release_kept();
        return queue.keep_unreleased(choices.once_in(4));
      default:
        if (choices.once_in(4)) reopen(index, !choices.once_in(4));
        if (choices.once_in(2)) pass_time(choices);
    }
  }

  CapsuleDepth finish() {
    for (const auto& script : scripts_) {
      script->hold = false;
      script->refuse_queues = false;
      script->refusals = 0;
      script->outcomes.clear();
    }
    for (auto& queue : queues_) close(*queue);
    serve_one();
    for (auto& queue : queues_) queue.reset();
    target_.collect();
    for (const auto& script : scripts_) {
      require(script->queues == 0, "a queue of a device is left");
      depth_.deallocations += script->count(block::Operation::kDeallocate);
    }
    return std::move(depth_);
  }

 private:
  static constexpr size_t kQueues = 4;  // an admin queue, I/O queues, and one that is what it makes of itself

  static void check(const Status& status) { require(status.ok(), "the scene can't be set"); }

  void attach(uint32_t nsid) {
    auto script = std::make_shared<DeviceScript>(DeviceScript{.block_bytes = nsid == 2 ? 4096u : 512u,
                                                              .blocks = 64,
                                                              .in_memory = nsid == 2,
                                                              .read_only = nsid == 3});
    nvmf::NamespaceOptions options;
    options.nsid = nsid;
    options.device = make_scripted_device(script);
    if (target_.add_namespace(kSubsystem, std::move(options)).ok()) scripts_.push_back(std::move(script));
  }

  void count(const std::vector<Answer>& answers) {
    for (const Answer& answer : answers) {
      ++depth_.answers[answer.code];
      if (answer.cid != fused_[0] && answer.cid != fused_[1]) continue;
      if (answer.ok() && ++fused_answers_ == 2) ++depth_.fused_pairs;
    }
  }
  void poll(HostQueue& queue) {
    queue.now = now_;
    count(queue.poll());
    if (!queue.queue().ending()) return;
    if (silent_) ++depth_.silences;
    silent_ = false;
    queue.disconnect();
  }

  /// What random commands almost never come to, because it takes several that belong together.
  void act_in_order(HostQueue& queue, Choices& choices) {
    if (queue.free_slots() < 2) return poll(queue);
    queue.now = now_;
    const bool admin = &queue == queues_[0].get();
    switch (choices.below(4)) {
      case 0:
        return admin ? reset(queue) : fuse(queue, choices);
      case 1:
        return admin ? fall_silent(queue, choices) : deallocate(queue, choices);
      case 2:
        if (admin) queue.receive(command::make(command::kKeepAlive));
        return;
      default:
        return pass_time(choices);
    }
  }

  /// Compare and write, mostly of what is there.
  void fuse(HostQueue& queue, Choices& choices) {
    const uint32_t nsid = namespace_id(choices);
    const uint64_t block = choices.below(66);
    const Bytes data((nsid == 2 ? 4096 : 512), static_cast<std::byte>(choices.once_in(4)));
    fused_answers_ = 0;
    fused_[0] = queue.send(
        command::fused(command::blocks(command::kCompare, nsid, block, 1), Command::Fuse::kFirst), data);
    // Other namespaces, other blocks and a missing half are wrong.
    const uint64_t other = choices.once_in(8) ? choices.below(66) : block;
    if (choices.once_in(8)) return poll(queue);
    fused_[1] = queue.send(
        command::fused(command::blocks(command::kWrite, nsid, other, 1), Command::Fuse::kSecond), data);
    poll(queue);
  }

  void deallocate(HostQueue& queue, Choices& choices) {
    std::vector<nvmf::DatasetRange> ranges(1 + choices.below(choices.once_in(4) ? 256 : 4));
    for (nvmf::DatasetRange& range : ranges)
      range = {0, choices.once_in(8) ? number(choices) : choices.below(20), choices.below(66)};
    Command made = command::make(command::kDatasetManagement, namespace_id(choices));
    made.dword10 = choices.once_in(8) ? number(choices) : static_cast<uint32_t>(ranges.size()) - 1;
    made.dword11 = choices.once_in(8) ? choices.below(8) : 1u << 2;
    queue.send(made, bytes_of(ranges.data(), ranges.size() * sizeof(nvmf::DatasetRange)));
  }

  /// The controller is disabled, whatever its queues are at, and enabled.
  void reset(HostQueue& queue) {
    const uint16_t disabled = queue.send(command::set_property(nvmf::Property::kConfiguration, kEnabled - 1));
    for (const Answer& answer : queue.poll()) {
      count({answer});
      if (answer.cid == disabled && answer.ok()) ++depth_.resets;
    }
    queue.send(command::set_property(nvmf::Property::kConfiguration, kEnabled));
    poll(queue);
  }

  /// A keep-alive timeout, and nothing that would keep it from expiring.
  void fall_silent(HostQueue& queue, Choices& choices) {
    constexpr uint8_t kKeepAliveTimer = 0x0F;
    queue.send(command::set_features(kKeepAliveTimer, 1 + choices.below(2000)));
    poll(queue);
    now_ = now_ + milliseconds(choices.below(8000));
    silent_ = true;
    poll(queue);
    silent_ = false;
  }

  void close(HostQueue& queue) {
    constexpr int kPollsMax = 2000;
    queue.disconnect();
    for (int polls = 0; polls < kPollsMax && !queue.queue().drained(); ++polls) {
      queue.release_kept();
      count(queue.poll());
    }
    queue.release_kept();
    require(queue.queue().drained(), "a queue that is disconnected is not drained");
  }

  /// `well`: as a host does it that knows how.
  void reopen(size_t index, bool well) {
    for (const auto& script : scripts_) script->hold = false;
    if (queues_[index] != nullptr) close(*queues_[index]);
    queues_[index] = std::make_unique<HostQueue>(target_, nvmf::QueueOptions{.entries = 16});
    HostQueue& queue = *queues_[index];
    queue.now = now_;
    if (!well || index == kQueues - 1) return;
    const uint16_t controller = index == 0 ? nvmf::kDynamicController : controller_;
    queue.send(command::connect(static_cast<uint16_t>(index), 15),
               bytes_of(connect_data(kSubsystem, kHost, controller)));
    poll(queue);
    if (index != 0) return;
    controller_ = queue.queue().controller_id().value_or(0);
    queue.send(command::set_property(nvmf::Property::kConfiguration, kEnabled));
    poll(queue);
  }

  void receive(HostQueue& queue, Choices& choices) {
    if (queue.free_slots() == 0) return poll(queue);
    queue.now = now_;
    Command command;
    switch (choices.below(8)) {
      case 0:
        command = raw_command(choices);
        break;
      case 1:
        command = fabrics_command(choices);
        break;
      default:
        command = &queue == queues_[0].get() ? admin_command(choices) : io_command(choices);
    }
    Bytes data;
    if (choices.once_in(4)) {
      nvmf::ConnectData connect =
          connect_data(choices.once_in(4) ? std::string(nvmf::kDiscoveryNqn) : kSubsystem, kHost,
                       choices.once_in(2) ? controller_ : nvmf::kDynamicController);
      if (choices.once_in(8)) connect.host_nqn[choices.below(4)] = static_cast<char>(choices.bytes(1));
      data = bytes_of(connect);
    } else if (choices.once_in(2)) {
      data.resize(choices.below(128));
      for (std::byte& byte : data) byte = static_cast<std::byte>(choices.bytes(1));
    }
    queue.receive(command, std::move(data));
  }

  void go_on(HostQueue& queue, Choices& choices) {
    const std::vector<uint16_t> waiting = queue.with_transport();
    if (waiting.empty()) return poll(queue);
    queue.now = now_;
    const uint16_t cid = waiting[choices.below(static_cast<uint32_t>(waiting.size()))];
    if (choices.once_in(8)) return queue.fail(cid, nvmf::failed(nvmf::StatusCode::kDataTransferError));
    queue.execute(cid);
  }

  void script(Choices& choices) {
    DeviceScript& script = *scripts_[choices.below(static_cast<uint32_t>(scripts_.size()))];
    switch (choices.below(4)) {
      case 0:
        script.hold = !script.hold;
        return;
      case 1:
        script.refusals = choices.below(4);
        return;
      case 2:
        script.outcomes.push_back(static_cast<block::Outcome>(choices.below(4)));
        return;
      default:
        script.refuse_queues = choices.once_in(2);
    }
  }

  void configure(Choices& choices) {
    const uint32_t nsid = 1 + choices.below(3);
    switch (choices.below(6)) {
      case 0:
        static_cast<void>(target_.remove_namespace(kSubsystem, nsid));
        return;
      case 1:
      case 2:
        return attach(nsid);
      case 3:
        static_cast<void>(target_.set_ana_state(
            kSubsystem, 1, choices.once_in(4) ? nvmf::AnaState::kInaccessible : nvmf::AnaState::kOptimized));
        return;
      case 4:
        static_cast<void>(target_.set_hosts(kSubsystem, {}, !choices.once_in(8)));
        return;
      default:
        target_.collect();
    }
  }

  void pass_time(Choices& choices) { now_ = now_ + milliseconds(choices.below(3000)); }

  void serve_one() {
    check(target_.set_ana_state(kSubsystem, 1, nvmf::AnaState::kOptimized));
    check(target_.set_hosts(kSubsystem, {}, true));
    attach(1);
    queues_ = {};
    Host host(target_);
    const Bytes data = pattern(512, 1);
    HostQueue& io = host.io();
    require(io.run(command::blocks(command::kWrite, 1, 3, 1), data).ok(), "a write fails");
    require(io.run(command::blocks(command::kRead, 1, 3, 1)).data == data, "what was written is not read");
  }

  nvmf::Target target_{nvmf::TargetOptions{.firmware = "1"}};
  std::vector<std::shared_ptr<DeviceScript>> scripts_;
  std::array<std::unique_ptr<HostQueue>, kQueues> queues_;
  uint16_t controller_ = 0;
  Instant now_ = Instant{} + seconds(1000);
  std::array<uint16_t, 2> fused_{};  // numbers of the last pair
  uint32_t fused_answers_ = 0;       // that are good
  bool silent_ = false;
  CapsuleDepth depth_;
};

}  // namespace

CapsuleDepth check_capsules(std::span<const std::byte> input) {
  Choices choices(input);
  Scene scene;
  while (!choices.over()) scene.act(choices);
  return scene.finish();
}

}  // namespace uroce::fuzz
