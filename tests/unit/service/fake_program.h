#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host/control.h"
#include "service/descriptor.h"
#include "tests/unit/service/program_memory.h"

namespace uroce::testing {

/// A program as the service sees it: a connection, and memory of its own. Says what a test wants it to say.
class FakeProgram {
 public:
  explicit FakeProgram(const std::string& path);

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] ProgramMemory& memory() { return memory_; }

  bool send(const host::Message& message, const std::vector<int>& descriptors = {});
  bool send_bytes(const void* bytes, size_t length, const std::vector<int>& descriptors = {});

  struct Received {
    host::Message message;
    std::vector<service::Descriptor> descriptors;
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

  /// The answer: kAttached or kDone. `number`: a block that is claimed; `device`: the first one without.
  host::Message attach(uint32_t number = 0, uint32_t count = 0, std::string_view device = {});
  [[nodiscard]] uint32_t number() const { return number_; }
  /// The JSON that the service answers; empty: it does not.
  std::string status();
  /// Binds `id` to a port of TCP's space at every IPv4 address, or at `address`: the answer.
  host::Message bind(uint64_t id, uint16_t port, uint32_t flags = host::kBindFamilyOnly,
                     const Gid& address = Gid::from_ipv4({}));

 private:
  service::Descriptor socket_;
  ProgramMemory memory_;
  uint32_t number_ = 0;
  uint32_t last_request_ = 0;
};

/// A message of that type with the protocol's version.
host::Message hello(host::MessageType type);

}  // namespace uroce::testing
