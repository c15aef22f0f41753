#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nvmf/queue/queue.h"
#include "nvmf/subsystem/target.h"
#include "nvmf_host/commands.h"

namespace uroce::testing {

using namespace nvmf_host;

using Bytes = std::vector<std::byte>;

/// What a host gets for a command.
struct Answer {
  nvmf::StatusCode code = nvmf::StatusCode::kSuccess;
  bool do_not_retry = false;
  uint64_t result = 0;
  uint16_t cid = 0;
  uint16_t sq_head = 0;
  Bytes data{};  // that came to the host

  [[nodiscard]] bool ok() const { return code == nvmf::StatusCode::kSuccess; }
};

template <typename T>
T as(const Answer& answer) {
  T value{};
  std::copy_n(answer.data.begin(), std::min(answer.data.size(), sizeof(T)),
              reinterpret_cast<std::byte*>(&value));
  return value;
}

/// A transport of one connection without a wire, and the host at its other end: commands are carried to a
/// Queue as its header says, and data in buffers of several pieces. Throws std::logic_error when the queue
/// breaks its promises.
class HostQueue {
 public:
  HostQueue(nvmf::Target& target, nvmf::QueueOptions options);
  ~HostQueue();
  HostQueue(const HostQueue&) = delete;
  HostQueue& operator=(const HostQueue&) = delete;

  /// A capsule arrives, and no more. The number by which it is known.
  uint16_t receive(nvmf::Command command, Bytes data = {});
  /// The transport has what it needs for it.
  void execute(uint16_t cid);
  void fail(uint16_t cid, nvmf::CommandStatus status);
  /// Both; nothing more is done for a command that has ended.
  uint16_t send(nvmf::Command command, Bytes data = {});
  /// One poll, and what came of it.
  std::vector<Answer> poll();
  /// Polls until the command is answered, at most a few times. nullopt: it is not.
  std::optional<Answer> answer(uint16_t cid);
  /// Send, and answer, which has to come.
  Answer run(nvmf::Command command, Bytes data = {});

  /// In-place data is looked at when it is released.
  void keep_unreleased(bool keep) { keep_ = keep; }
  void release_kept();
  void disconnect();
  /// disconnect(), and polls until it is drained. `polls`: at most.
  bool drain(uint32_t polls = 100);

  [[nodiscard]] nvmf::Queue& queue() { return *queue_; }
  [[nodiscard]] size_t free_slots() const { return free_.size(); }
  /// Commands that were received and neither executed nor failed.
  [[nodiscard]] std::vector<uint16_t> with_transport() const;
  Instant now = Instant{} + seconds(1000);

 private:
  struct Slot {
    nvmf::Request request;
    Bytes to_target;
    std::vector<std::byte> buffer;
    std::vector<iovec> pieces;
    bool with_transport = false;
  };
  Slot& slot_of(uint16_t cid);
  void stage(Slot& slot);
  Answer take(Slot& slot);
  void release(Slot& slot);

  std::unique_ptr<nvmf::Queue> queue_;
  std::deque<Slot> slots_;
  std::vector<Slot*> free_;
  std::vector<Slot*> kept_;
  std::vector<Answer> answers_;
  uint16_t next_cid_ = 1;
  bool keep_ = false;
  bool disconnected_ = false;
};

inline constexpr const char* kSubsystem = "nqn.2026-11.example:disks";
inline constexpr const char* kHost = "nqn.2014-08.org.nvmexpress:uuid:11111111-2222-3333-4444-555555555555";

/// What Connect brings.
nvmf::ConnectData connect_data(const std::string& subsystem = kSubsystem, const std::string& host = kHost,
                               uint16_t controller = nvmf::kDynamicController);
Bytes bytes_of(const void* data, size_t size);
template <typename T>
Bytes bytes_of(const T& value) {
  return bytes_of(&value, sizeof(T));
}
/// `count` bytes that differ from those of another seed.
Bytes pattern(size_t count, uint8_t seed);

/// A host with an enabled controller.
class Host {
 public:
  struct Options {
    std::string subsystem = kSubsystem;
    std::string nqn = kHost;
    uint32_t keep_alive_ms = 0;
    nvmf::TransportCapabilities transport{};
    uint32_t entries = 32;
  };
  explicit Host(nvmf::Target& of) : Host(of, Options{}) {}
  Host(nvmf::Target& of, Options with);

  /// Connected, ready for commands.
  HostQueue& io(uint16_t qid = 1);
  void set_configuration(uint32_t value);
  uint32_t status();

  nvmf::Target& target;
  const Options options;
  HostQueue admin;
  uint16_t controller = 0;

 private:
  std::deque<HostQueue> io_;
};

/// CC: I/O queue entry sizes, enabled.
inline constexpr uint32_t kEnabled = 1 | 6u << 16 | 4u << 20;

}  // namespace uroce::testing
