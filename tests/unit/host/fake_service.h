#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "drivers/port/host/control_socket.h"
#include "host/own_memory.h"
#include "host/shared_device.h"
#include "host/shared_memory.h"
#include "tests/unit/ports/temporary_folder.h"

namespace uroce::testing {

/// Numbers that the fake service gives, unless it is told otherwise.
inline constexpr NumberBlock kGivenNumbers{8u << host::kBlockBits, 1u << host::kBlockBits};
inline constexpr MacAddress kGivenMac{{0x02, 0, 0, 0, 0, 0x21}};
inline constexpr uint32_t kGivenMtu = 4200;
inline const Gid kGivenAddress = Gid::from_ipv4({192, 0, 2, 1});

/// How many descriptors this process has.
size_t open_descriptors();

/// Memory that another process may map to read, formatted.
class SharedFrames {
 public:
  explicit SharedFrames(host::MemoryShape shape);

  [[nodiscard]] int descriptor() const { return memory_.descriptor.get(); }
  [[nodiscard]] std::byte* data() const { return memory_.mapping.data(); }
  [[nodiscard]] size_t bytes() const { return memory_.mapping.bytes(); }

 private:
  host::SealedMemory memory_;
};

/// The service's end of one connection. Says what a test wants it to say.
class Conversation {
 public:
  explicit Conversation(Descriptor socket);

  bool send(const host::Message& message, const std::vector<int>& descriptors = {});
  bool send_bytes(std::span<const std::byte> bytes, const std::vector<int>& descriptors = {});
  /// The next message, waiting for up to ten seconds; nullopt: none, or the connection has ended.
  std::optional<host::Datagram> receive();
  /// The next message of that type; others before it are dropped.
  std::optional<host::Datagram> receive(host::MessageType type);
  /// The program has ended the conversation within ten seconds.
  bool ended();

  /// Receives kAttach and answers as a service does that has one address.
  bool attach();
  /// Likewise, with `attached` as the answer.
  bool attach(const host::Message& attached);
  /// The memory that the program maps, and that of the bell.
  [[nodiscard]] SharedFrames& memory() { return *memory_; }
  [[nodiscard]] int bell() const { return bell_->descriptor.get(); }

 private:
  Descriptor socket_;
  std::unique_ptr<SharedFrames> memory_;
  std::unique_ptr<host::SealedMemory> bell_;
};

/// kAttached, and what it may be followed by.
host::Message attached_answer();
host::Message address_message(const Gid& address = kGivenAddress);

/// Something that listens at a service's socket, and says what a test wants it to say. One conversation
/// after the other.
class FakeService {
 public:
  /// Runs in a thread of its own. True: the test goes on with the conversation (take()); false: it ends.
  using Script = std::function<bool(Conversation& conversation, int index)>;
  explicit FakeService(Script script);
  ~FakeService();
  FakeService(const FakeService&) = delete;
  FakeService& operator=(const FakeService&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }
  /// Conversations that have begun.
  [[nodiscard]] int conversations() const { return conversations_; }
  /// The next one that the script has left to the test; nullptr: none within ten seconds.
  std::unique_ptr<Conversation> take();

 private:
  void serve();

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/service.sock";
  const Script script_;
  Descriptor listening_;
  std::atomic<int> conversations_{0};
  std::mutex mutex_;
  std::condition_variable left_changed_;
  std::vector<std::unique_ptr<Conversation>> left_;
  std::thread thread_;
};

/// A script that attaches each program, and leaves the rest to the test.
inline bool attach_and_leave(Conversation& conversation, int) { return conversation.attach(); }

}  // namespace uroce::testing
