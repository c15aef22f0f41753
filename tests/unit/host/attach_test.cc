// What listens at a service's socket need not be a service: attaching fails in a bounded time, by one line
// that names the socket, and leaves nothing open.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <cerrno>
#include <csignal>
#include <cstring>

#include "drivers/port/host/attachment.h"
#include "drivers/port/host/host.h"
#include "tests/support/packet.h"
#include "tests/unit/host/fake_service.h"

namespace uroce::testing {
namespace {

using drivers::Attachment;
using host::Message;
using host::MessageType;

constexpr size_t kPage = 4096;
constexpr int kAllSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_FUTURE_WRITE;

Status attach_to(const std::string& path) {
  const auto opened = Attachment::open({.socket = path, .device = "uroce0", .numbers = 100});
  return opened ? Status() : opened.error();
}

void expect_one_line(const Error& error, const std::string& path) {
  EXPECT_NE(error.message.find(path), std::string::npos) << error.message;
  for (const char c : error.message) EXPECT_TRUE(c >= 0x20 && c < 0x7F) << error.message;
}

/// Attaches to what follows `script` in the first conversation; the errno, with no descriptor left open.
int attach_to(const FakeService::Script& script) {
  const size_t before = open_descriptors();
  int error = 0;
  {
    FakeService service([&](Conversation& conversation, int index) {
      conversation.receive(MessageType::kAttach);
      return script(conversation, index);
    });
    if (const Status attached = attach_to(service.path()); !attached) {
      error = attached.error().code;
      expect_one_line(attached.error(), service.path());
    }
  }
  EXPECT_EQ(open_descriptors(), before);
  return error;
}

/// A sound service but for `attached`.
int attach_with(const Message& attached) {
  return attach_to([&](Conversation& conversation, int) {
    conversation.send(attached, {conversation.memory().descriptor(), conversation.bell()});
    conversation.send(address_message());
    conversation.send({.type = MessageType::kPrograms, .count = 1});
    return true;
  });
}

/// A sound service but for the descriptors.
int attach_with_descriptors(const std::function<std::vector<int>(Conversation&)>& descriptors) {
  return attach_to([&](Conversation& conversation, int) {
    conversation.send(attached_answer(), descriptors(conversation));
    conversation.send({.type = MessageType::kPrograms, .count = 1});
    return true;
  });
}

TEST(Attach, ASoundServiceIsTaken) { EXPECT_EQ(attach_with(attached_answer()), 0); }

TEST(Attach, AnswersOfOtherTypes) {
  for (auto type = static_cast<uint32_t>(MessageType::kList);
       type <= static_cast<uint32_t>(MessageType::kLast); ++type) {
    Message answer = attached_answer();
    answer.type = static_cast<MessageType>(type);
    EXPECT_EQ(attach_with(answer), answer.type == MessageType::kAttached ? 0 : EPROTO) << type;
  }
}

TEST(Attach, Refusals) {
  Message refusal{.type = MessageType::kDone, .error = EACCES};
  EXPECT_EQ(attach_with(refusal), EACCES);
  host::set_text(refusal.text, "not you\n\x1b[31m, and not this: \xff");
  EXPECT_EQ(attach_with(refusal), EACCES);
  for (const int error : {-1, INT32_MIN, 4096, INT32_MAX}) {
    refusal.error = error;
    EXPECT_EQ(attach_with(refusal), EPROTO);
  }
}

TEST(Attach, DatagramsThatAreNoMessage) {
  const auto answer_bytes = [](size_t length, const std::function<void(std::byte*)>& spoil = nullptr) {
    return attach_to([&](Conversation& conversation, int) {
      std::vector<std::byte> bytes(std::max(length, sizeof(Message)));
      const Message sound = attached_answer();
      std::memcpy(bytes.data(), &sound, sizeof sound);
      if (spoil) spoil(bytes.data());
      conversation.send_bytes(std::span(bytes).first(length),
                              {conversation.memory().descriptor(), conversation.bell()});
      conversation.send({.type = MessageType::kPrograms});
      return true;
    });
  };
  for (const size_t length : {size_t{1}, size_t{4}, size_t{300}, sizeof(Message) - 1, sizeof(Message) + 1,
                              sizeof(Message) + 70'000})
    EXPECT_EQ(answer_bytes(length), EPROTO) << length;
  EXPECT_EQ(answer_bytes(0), ENOTCONN) << "cannot be told from the end";
  for (const uint32_t type : {0u, static_cast<uint32_t>(MessageType::kLast) + 1, UINT32_MAX})
    EXPECT_EQ(answer_bytes(sizeof(Message), [&](std::byte* to) { std::memcpy(to, &type, sizeof type); }),
              EPROTO);
  const auto fill = [](size_t offset, size_t length) {
    return [=](std::byte* to) { std::memset(to + offset, 'A', length); };
  };
  EXPECT_EQ(answer_bytes(sizeof(Message), fill(offsetof(Message, text), sizeof(Message::text))), EPROTO);
  EXPECT_EQ(answer_bytes(sizeof(Message), fill(offsetof(Message, name), sizeof(Message::name))), EPROTO);
  EXPECT_EQ(answer_bytes(sizeof(Message), fill(offsetof(Message, partition_keys_count), 2)), EPROTO);
}

TEST(Attach, NumbersThatNoProgramCanHave) {
  constexpr uint32_t kUnit = 1u << host::kBlockBits;
  constexpr NumberBlock kUnsound[] = {{8 * kUnit, 0},
                                      {8 * kUnit, 1},
                                      {8 * kUnit, kUnit - 1},
                                      {8 * kUnit, 3 * kUnit},
                                      {8 * kUnit + 1, kUnit},
                                      {kUnit, 2 * kUnit},
                                      {0, kUnit},
                                      {0, QpNumber::kMask + 1},
                                      {QpNumber::kMask + 1 - kUnit, kUnit},
                                      {QpNumber::kMask + 1, kUnit},
                                      {UINT32_MAX - kUnit + 1, kUnit},
                                      {0x8000'0000, 0x8000'0000},
                                      {UINT32_MAX, UINT32_MAX}};
  for (const NumberBlock block : kUnsound) {
    Message attached = attached_answer();
    attached.number = block.first;
    attached.count = block.count;
    EXPECT_EQ(attach_with(attached), EPROTO) << block.first << " + " << block.count;
  }
}

TEST(Attach, AddressesThatThereCannotBe) {
  const auto attach_with_news = [](const std::vector<Message>& news) {
    return attach_to([&](Conversation& conversation, int) {
      conversation.send(attached_answer(), {conversation.memory().descriptor(), conversation.bell()});
      for (const Message& one : news) conversation.send(one);
      return true;
    });
  };
  Message address = address_message(Gid{});
  EXPECT_EQ(attach_with_news({address}), EPROTO);
  address = address_message();
  address.prefix_bits = 129;
  EXPECT_EQ(attach_with_news({address}), EPROTO);
  address = address_message();
  address.vlan = 4095;
  EXPECT_EQ(attach_with_news({address}), EPROTO);
  std::vector<Message> many;
  for (int i = 0; i < 257; ++i)
    many.push_back(
        address_message(Gid::from_ipv4({10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)})));
  EXPECT_EQ(attach_with_news(many), EPROTO);
  EXPECT_EQ(attach_with_news(std::vector<Message>(10'000, {.type = MessageType::kGone})), EPROTO);
}

TEST(Attach, DescriptorsOfEveryWrongNumber) {
  using Numbers = std::vector<int>;
  EXPECT_EQ(attach_with_descriptors([](Conversation&) { return Numbers(); }), EPERM);
  EXPECT_EQ(attach_with_descriptors([](Conversation& one) { return Numbers{one.memory().descriptor()}; }),
            EPERM);
  for (const size_t count : {3u, 8u, 9u, 60u})
    EXPECT_EQ(attach_with_descriptors([&](Conversation& one) { return Numbers(count, one.bell()); }), EPROTO)
        << count;
}

/// A memfd of that size with those seals.
Descriptor memory_file(size_t bytes, int seals) {
  Descriptor file(memfd_create("odd", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(ftruncate(file.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(file.get(), F_ADD_SEALS, seals), 0);
  return file;
}

TEST(Attach, DescriptorsOfEveryWrongKind) {
  const size_t bytes = host::MemoryLayout(host::kServiceMemory).bytes();
  const auto expect_refused = [](int memory, int error, const char* what) {
    EXPECT_EQ(attach_with_descriptors([&](Conversation& one) {
                return std::vector{memory, one.bell()};
              }),
              error)
        << what;
  };
  expect_refused(memory_file(bytes, 0).get(), EPERM, "no seals");
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_FUTURE_WRITE})
    expect_refused(memory_file(bytes, kAllSeals & ~missing).get(), EPERM, "a seal is missing");
  expect_refused(memory_file(bytes - kPage, kAllSeals).get(), EPERM, "too small");
  expect_refused(memory_file(bytes + kPage, kAllSeals).get(), EPERM, "too large");
  expect_refused(memory_file(bytes, kAllSeals).get(), EPROTO, "not formatted");
  expect_refused(SharedFrames(host::kProgramMemory).descriptor(), EPERM, "a program's");
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const Descriptor reading(ends[0]);
  const Descriptor writing(ends[1]);
  expect_refused(reading.get(), EPERM, "a pipe");
  for (const char* path : {"/dev/zero", "/proc/self/exe", "/"}) {
    const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    ASSERT_TRUE(file.ok());
    expect_refused(file.get(), EPERM, path);
  }
  const Descriptor large = memory_file(2 * kPage, kAllSeals);
  const auto descriptors = [&](Conversation& one) {
    return std::vector{one.memory().descriptor(), large.get()};
  };
  EXPECT_EQ(attach_with_descriptors(descriptors), EPERM) << "the bell is too large";
}

TEST(Attach, DescriptorsThatNothingWantsAreClosed) {
  const auto error = attach_to([](Conversation& conversation, int) {
    conversation.send(attached_answer(), {conversation.memory().descriptor(), conversation.bell()});
    Message address = address_message();
    conversation.send(address, {conversation.bell(), conversation.bell()});
    conversation.send({.type = MessageType::kPrograms, .count = 1}, {conversation.bell()});
    return true;
  });
  EXPECT_EQ(error, 0);
}

TEST(Attach, AServiceThatEndsAtEveryPoint) {
  for (int messages = 0; messages < 3; ++messages) {
    const int error = attach_to([&](Conversation& conversation, int) {
      if (messages > 0)
        conversation.send(attached_answer(), {conversation.memory().descriptor(), conversation.bell()});
      if (messages > 1) conversation.send(address_message());
      return false;
    });
    EXPECT_EQ(error, ENOTCONN) << messages;
  }
  // Before it has read the program's first message.
  FakeService service([](Conversation&, int) { return false; });
  const Status attached = attach_to(service.path());
  ASSERT_FALSE(attached);
  EXPECT_TRUE(attached.error().code == ENOTCONN || attached.error().code == EPIPE) << attached.error().code;
  expect_one_line(attached.error(), service.path());
}

/// A listener whose queue is full: connecting waits.
class FullListener {
 public:
  FullListener() : listening_(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = unix_address(path_);
    const auto* const where = reinterpret_cast<const sockaddr*>(&address);
    EXPECT_EQ(bind(listening_.get(), where, sizeof address), 0);
    EXPECT_EQ(listen(listening_.get(), 0), 0);
    for (int i = 0; i < 10; ++i) {
      Descriptor waiting(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
      if (connect(waiting.get(), where, sizeof address) != 0) return;
      waiting_.push_back(std::move(waiting));
    }
    ADD_FAILURE() << "the queue is never full";
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/full.sock";
  Descriptor listening_;
  std::vector<Descriptor> waiting_;
};

/// All at once, because each waits for as long as a service may take. The thread is interrupted meanwhile.
TEST(Attach, AServiceThatDoesNotGoOnIsGivenUp) {
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) {};
  struct sigaction before {};
  sigaction(SIGUSR1, &interrupt, &before);
  FakeService silent([](Conversation&, int) { return true; });
  FakeService half([](Conversation& conversation, int) {
    conversation.send(attached_answer(), {conversation.memory().descriptor(), conversation.bell()});
    return true;
  });
  std::atomic<bool> over = false;
  FakeService slow([&](Conversation& conversation, int) {
    conversation.send(attached_answer(), {conversation.memory().descriptor(), conversation.bell()});
    while (!over && conversation.send({.type = MessageType::kLink}))
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    return true;
  });
  const FullListener full;
  std::vector<std::thread> programs;
  std::atomic<int> given_up = 0;
  for (const std::string& path : {silent.path(), half.path(), slow.path(), full.path()})
    programs.emplace_back([&, path] {
      const Status attached = attach_to(path);
      EXPECT_EQ(attached ? 0 : attached.error().code, ETIMEDOUT) << path;
      if (!attached) expect_one_line(attached.error(), path);
      ++given_up;
    });
  while (given_up < 4) {
    for (std::thread& program : programs) pthread_kill(program.native_handle(), SIGUSR1);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  over = true;
  for (std::thread& program : programs) program.join();
  sigaction(SIGUSR1, &before, nullptr);
}

TEST(Attach, AServiceThatEndsJustThenIsTriedOnceMore) {
  for (const int ends : {0, 1, 2}) {
    FakeService service([&](Conversation& conversation, int index) {
      if (index < ends) return false;
      return conversation.attach();
    });
    const auto port = drivers::open_host({.devargs = "host,socket=" + service.path()});
    EXPECT_EQ(port.ok(), ends < 2) << ends;
    EXPECT_EQ(service.conversations(), ends < 2 ? ends + 1 : 2);
    if (!port) expect_one_line(port.error(), service.path());
  }
}

TEST(Attach, ListsOfDevices) {
  const auto list = [](const std::vector<Message>& answers) {
    FakeService service([&](Conversation& conversation, int) {
      conversation.receive(MessageType::kList);
      for (const Message& answer : answers) conversation.send(answer);
      return true;
    });
    const auto devices = drivers::devices_of_service("host,socket=" + service.path());
    if (!devices) expect_one_line(devices.error(), service.path());
    return devices ? static_cast<int>(devices->size()) : -devices.error().code;
  };
  const Message device{.type = MessageType::kDevice};
  const Message done{.type = MessageType::kDone};
  EXPECT_EQ(list({done}), 0);
  EXPECT_EQ(list({device, device, done}), 2);
  EXPECT_EQ(list({device, attached_answer()}), -EPROTO);
  const Message address{.type = MessageType::kAddressAdded};
  EXPECT_EQ(list({device, address, address, device, done}), 2);
  EXPECT_EQ(list({address, device, done}), -EPROTO);
  std::vector<Message> many(host::kAddressesMax + 1, address);
  many.insert(many.begin(), device);
  EXPECT_EQ(list(many), -EPROTO);
  EXPECT_EQ(list({{.type = MessageType::kDone, .error = EACCES}}), -EACCES);
  EXPECT_EQ(list(std::vector(100'000, device)), -EPROTO);
}

}  // namespace
}  // namespace uroce::testing
