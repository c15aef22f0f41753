#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/descriptor.h"
#include "host/control.h"
#include "host/number_blocks.h"
#include "tests/unit/service/program_memory.h"

namespace uroce::testing {

/// A program as the service sees it: a connection, and memory of its own. Says what a test wants it to say.
class FakeProgram {
 public:
  explicit FakeProgram(const std::string& path);

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] ProgramMemory& memory() { return memory_; }

  bool send(const host::Message& message, const std::vector<int>& descriptors = {});

  struct Received {
    host::Message message;
    std::vector<Descriptor> descriptors;
  };
  /// The next message, waiting for up to ten seconds; nullopt: none, or the connection has ended.
  std::optional<Received> receive();
  /// The next message of that type; others before it are dropped.
  std::optional<Received> receive(host::MessageType type);
  /// Sends a request, and waits for what answers it.
  host::Message ask(host::Message request, const std::vector<int>& descriptors = {});
  /// The service has closed the connection, or does so within ten seconds.
  bool closed();
  /// No message waits.
  bool silent();

  /// The answer: kAttached or kDone. `device`: the first one without.
  host::Message attach(uint32_t count = 0, std::string_view device = {});
  /// The same, by a program that has had numbers before. `granted`: a service's memory, which says so.
  host::Message attach_again(NumberBlock held, int granted, std::string_view device = {});
  /// With what the program `before` was given.
  host::Message attach_again(const FakeProgram& before, std::string_view device = {}) {
    return attach_again({before.number(), kBlock}, before.granted(), device);
  }
  [[nodiscard]] uint32_t number() const { return number_; }
  /// The descriptor of the service's memory for this program.
  [[nodiscard]] int granted() const { return granted_.get(); }
  /// The JSON that the service answers; empty: it does not.
  std::string status();
  /// Binds `id` to a port of TCP's space at every IPv4 address, or at `address`: the answer.
  host::Message bind(uint64_t id, uint16_t port, uint32_t flags = host::kBindFamilyOnly,
                     const Gid& address = Gid::from_ipv4({}));

 private:
  static constexpr uint32_t kBlock = 1u << host::kBlockBits;

  host::Message attach(host::Message request, const std::vector<int>& descriptors, std::string_view device);

  Descriptor socket_;
  ProgramMemory memory_;
  Descriptor granted_;
  uint32_t number_ = 0;
  uint32_t last_request_ = 0;
};

/// A message of that type with the protocol's version.
host::Message hello(host::MessageType type);

}  // namespace uroce::testing
