#include "tests/unit/host/fake_service.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <cstring>
#include <filesystem>

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr int kPatienceMs = 10'000;
constexpr size_t kDescriptorsMax = 64;
constexpr size_t kPage = 4096;

}  // namespace

size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

SharedFrames::SharedFrames(host::MemoryShape shape)
    : memory_(std::move(*drivers::OwnSharedMemory::create("fake", host::MemoryLayout(shape).bytes()))) {
  const host::OwnMemory formatted(data(), shape);
}

Conversation::Conversation(drivers::Descriptor socket)
    : socket_(std::move(socket)),
      memory_(std::make_unique<SharedFrames>(host::kServiceMemory)),
      bell_(std::make_unique<drivers::OwnSharedMemory>(
          std::move(*drivers::OwnSharedMemory::create("bell", kPage)))) {}

bool Conversation::send(const Message& message, const std::vector<int>& descriptors) {
  return send_bytes(&message, sizeof message, descriptors);
}

bool Conversation::send_bytes(const void* bytes, size_t length, const std::vector<int>& descriptors) {
  iovec part{.iov_base = const_cast<void*>(bytes), .iov_len = length};
  alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(kDescriptorsMax * sizeof(int))> control{};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  if (!descriptors.empty()) {
    const size_t size = descriptors.size() * sizeof(int);
    header.msg_control = control.data();
    header.msg_controllen = CMSG_SPACE(size);
    cmsghdr* const rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(size);
    std::memcpy(CMSG_DATA(rights), descriptors.data(), size);
  }
  return sendmsg(socket_.number(), &header, MSG_NOSIGNAL) >= 0;
}

std::optional<drivers::ReceivedMessage> Conversation::receive() {
  auto received = drivers::ControlSocket(socket_.number()).wait(drivers::deadline_in(kPatienceMs));
  return received ? std::optional(std::move(*received)) : std::nullopt;
}

std::optional<drivers::ReceivedMessage> Conversation::receive(MessageType type) {
  for (;;) {
    auto received = receive();
    if (!received || received->message.type == type) return received;
  }
}

bool Conversation::ended() {
  while (receive()) continue;
  pollfd source{.fd = socket_.number(), .events = POLLIN, .revents = 0};
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
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  path_.copy(address.sun_path, sizeof address.sun_path - 1);
  const auto* const to = reinterpret_cast<const sockaddr*>(&address);
  constexpr int kBacklog = 16;
  EXPECT_EQ(bind(listening_.number(), to, sizeof address), 0);
  EXPECT_EQ(listen(listening_.number(), kBacklog), 0);
  thread_ = std::thread([this] { serve(); });
}

FakeService::~FakeService() {
  shutdown(listening_.number(), SHUT_RDWR);
  thread_.join();
}

void FakeService::serve() {
  for (;;) {
    drivers::Descriptor socket(accept4(listening_.number(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!socket) return;
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
