#include "tests/unit/host/fake_service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <filesystem>

#include "tests/support/packet.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr int kPatienceMs = 10'000;
constexpr size_t kPage = 4096;

}  // namespace

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

SharedFrames::SharedFrames(host::MemoryShape shape)
    : memory_(std::move(*host::make_sealed_memory("fake", host::MemoryLayout(shape).bytes()))) {
  const host::OwnMemory formatted(data(), shape);
}

Conversation::Conversation(Descriptor socket)
    : socket_(std::move(socket)),
      memory_(std::make_unique<SharedFrames>(host::kServiceMemory)),
      bell_(std::make_unique<host::SealedMemory>(std::move(*host::make_sealed_memory("bell", kPage)))) {}

bool Conversation::send(const Message& message, const std::vector<int>& descriptors) {
  return send_bytes(host::bytes_of(message), descriptors);
}

bool Conversation::send_bytes(std::span<const std::byte> bytes, const std::vector<int>& descriptors) {
  return send_packet(socket_.get(), bytes, descriptors);
}

std::optional<host::Datagram> Conversation::receive() {
  auto received = drivers::ControlSocket(socket_.get()).wait(drivers::deadline_in(kPatienceMs));
  return received ? std::optional(std::move(*received)) : std::nullopt;
}

std::optional<host::Datagram> Conversation::receive(MessageType type) {
  for (;;) {
    auto received = receive();
    if (!received || received->message.type == type) return received;
  }
}

bool Conversation::ended() {
  while (receive()) continue;
  pollfd source{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  return poll(&source, 1, 0) == 1 && (source.revents & POLLHUP) != 0;
}

bool Conversation::attach() { return attach(attached_answer()); }

bool Conversation::attach(const Message& attached) {
  return receive(MessageType::kAttach) && send(attached, {memory().descriptor(), bell()}) &&
         send(address_message()) && send({.type = MessageType::kPrograms, .count = 1});
}

Message attached_answer() {
  return {.type = MessageType::kAttached,
          .number = kGivenNumbers.first,
          .count = kGivenNumbers.count,
          .mtu = kGivenMtu,
          .port = 1,
          .up = 1,
          .mac = kGivenMac};
}

Message address_message(const Gid& address) {
  return {.type = MessageType::kAddressAdded, .prefix_bits = 24, .address = address};
}

FakeService::FakeService(Script script)
    : script_(std::move(script)), listening_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
  const sockaddr_un address = unix_address(path_);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  constexpr int kBacklog = 16;
  EXPECT_EQ(bind(listening_.get(), to, sizeof address), 0);
  EXPECT_EQ(listen(listening_.get(), kBacklog), 0);
  thread_ = std::thread([this] { serve(); });
}

FakeService::~FakeService() {
  shutdown(listening_.get(), SHUT_RDWR);
  thread_.join();
}

void FakeService::serve() {
  for (;;) {
    Descriptor socket(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket.ok()) return;
    auto conversation = std::make_unique<Conversation>(std::move(socket));
    if (!script_(*conversation, conversations_++)) continue;
    const std::lock_guard guard(mutex_);
    left_.push_back(std::move(conversation));
    left_changed_.notify_all();
  }
}

std::unique_ptr<Conversation> FakeService::take() {
  std::unique_lock lock(mutex_);
  const bool any =
      left_changed_.wait_for(lock, std::chrono::milliseconds(kPatienceMs), [&] { return !left_.empty(); });
  if (!any) return nullptr;
  auto first = std::move(left_.front());
  left_.erase(left_.begin());
  return first;
}

}  // namespace uroce::testing
