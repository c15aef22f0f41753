#include "tests/unit/service/fake_program.h"

#include <poll.h>
#include <sys/socket.h>

#include "host/packet_socket.h"
#include "tests/support/packet.h"
#include "wire/ip_cm.h"

namespace uroce::testing {
namespace {

constexpr int kPatienceMs = 10'000;

}  // namespace

host::Message hello(host::MessageType type) { return {.type = type, .version = host::kControlVersion}; }

FakeProgram::FakeProgram(const std::string& path)
    : socket_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = unix_address(path);
  if (connect(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0)
    socket_ = Descriptor();
}

bool FakeProgram::send(const host::Message& message, const std::vector<int>& descriptors) {
  return send_packet(socket(), host::bytes_of(message), descriptors);
}

std::optional<FakeProgram::Received> FakeProgram::receive() {
  pollfd source{.fd = socket(), .events = POLLIN, .revents = 0};
  if (poll(&source, 1, kPatienceMs) != 1) return std::nullopt;
  host::Datagram datagram = host::receive_datagram(socket());
  if (datagram.kind != host::Datagram::Kind::kMessage) return std::nullopt;
  Received received{datagram.message, {}};
  for (size_t i = 0; i < datagram.descriptors; ++i)
    received.descriptors.push_back(std::move(datagram.descriptor[i]));
  return received;
}

std::optional<FakeProgram::Received> FakeProgram::receive(host::MessageType type) {
  for (;;) {
    auto received = receive();
    if (!received || received->message.type == type) return received;
  }
}

host::Message FakeProgram::ask(host::Message request, const std::vector<int>& descriptors) {
  request.request = ++last_request_;
  if (!send(request, descriptors)) return {.error = EPIPE};
  for (;;) {
    const auto received = receive();
    if (!received) return {.error = EPIPE};
    if (received->message.request == request.request) return received->message;
    // The end of the conversation.
    if (received->message.type == host::MessageType::kDone && received->message.request == 0)
      return received->message;
  }
}

bool FakeProgram::closed() {
  while (receive()) continue;
  pollfd source{.fd = socket(), .events = POLLIN, .revents = 0};
  return poll(&source, 1, 0) == 1 && (source.revents & POLLHUP) != 0;
}

bool FakeProgram::silent() {
  pollfd source{.fd = socket(), .events = POLLIN, .revents = 0};
  return poll(&source, 1, 50) == 0;
}

host::Message FakeProgram::attach(uint32_t count, std::string_view device) {
  host::Message request = hello(host::MessageType::kAttach);
  request.count = count;
  return attach(request, {memory_.descriptor()}, device);
}

host::Message FakeProgram::attach_again(NumberBlock held, int granted, std::string_view device) {
  host::Message request = hello(host::MessageType::kAttach);
  request.number = held.first;
  request.count = held.count;
  return attach(request, {memory_.descriptor(), granted}, device);
}

host::Message FakeProgram::attach(host::Message request, const std::vector<int>& descriptors,
                                  std::string_view device) {
  host::set_text(request.name, device);
  host::set_text(request.text, "fake \x1b program");
  if (!send(request, descriptors)) return {.error = EPIPE};
  auto answer = receive();
  if (!answer) return {.error = EPIPE};
  if (answer->message.type != host::MessageType::kAttached) return answer->message;
  number_ = answer->message.number;
  if (answer->descriptors.size() != 2) return answer->message;
  memory_.connect(answer->descriptors[0].get());
  granted_ = std::move(answer->descriptors[0]);
  return answer->message;
}

std::string FakeProgram::status() {
  if (!send(hello(host::MessageType::kStatus))) return {};
  std::string text;
  for (auto part = receive(); part && part->message.type == host::MessageType::kText; part = receive())
    text += host::text_of(part->message.text);
  return text;
}

host::Message FakeProgram::bind(uint64_t id, uint16_t port, uint32_t flags, const Gid& address) {
  return ask({.type = host::MessageType::kBind,
              .flags = flags,
              .space = static_cast<uint16_t>(wire::PortSpace::kTcp),
              .port = port,
              .id = id,
              .address = address});
}

}  // namespace uroce::testing
