#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/support/soon.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

TEST(Quotas, EachIsNamedWhenItIsExhausted) {
  RunningService service({.quotas = {.programs = 2,
                                     .programs_per_user = 2,
                                     .numbers_per_program = 8192,
                                     .ports_per_program = 2,
                                     .groups_per_program = 1}});
  const auto expect_quota = [](const Message& answer, std::string_view name) {
    EXPECT_EQ(answer.error, EDQUOT);
    EXPECT_NE(host::text_of(answer.text).find(name), std::string_view::npos) << host::text_of(answer.text);
  };
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  FakeProgram c(service.path());
  expect_quota(a.attach(8193), "service.numbers_per_program");
  EXPECT_EQ(a.attach(8192).count, 8192u);
  b.attach();
  expect_quota(c.attach(), "service.programs");
  EXPECT_EQ(a.bind(1, 0).error, 0);
  EXPECT_EQ(a.bind(2, 0).error, 0);
  expect_quota(a.bind(3, 0), "service.ports_per_program");
  EXPECT_EQ(b.bind(3, 0).error, 0);
  const Gid group = Gid::from_ipv4({239, 1, 2, 3});
  const Gid other = Gid::from_ipv4({239, 1, 2, 4});
  EXPECT_EQ(a.ask({.type = MessageType::kJoin, .address = group}).error, 0);
  EXPECT_EQ(a.ask({.type = MessageType::kJoin, .address = group}).error, 0);
  expect_quota(a.ask({.type = MessageType::kJoin, .address = other}), "service.groups_per_program");
}

TEST(Quotas, ProgramsOfOneUser) {
  RunningService service({.quotas = {.programs_per_user = 1}});
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  a.attach();
  const Message refused = b.attach();
  EXPECT_EQ(refused.error, EDQUOT);
  EXPECT_NE(host::text_of(refused.text).find("service.programs_per_user"), std::string_view::npos);
}

TEST(Quotas, PortsOfTheProgramsOfOneUser) {
  RunningService service({.quotas = {.ports_per_user = 3}});
  std::optional<FakeProgram> a(service.path());
  FakeProgram b(service.path());
  a->attach();
  b.attach();
  EXPECT_EQ(a->bind(1, 0).error, 0);
  EXPECT_EQ(a->bind(2, 4420).error, 0);
  EXPECT_EQ(b.bind(1, 0).error, 0);
  for (FakeProgram* program : {&*a, &b}) {
    const Message refused = program->bind(3, 0);
    EXPECT_EQ(refused.error, EDQUOT);
    EXPECT_NE(host::text_of(refused.text).find("service.ports_per_user"), std::string_view::npos);
  }
  // Receive that one ends. Expect: what it had is free again.
  a.reset();
  int error = EDQUOT;
  for (int i = 0; i < 500 && error == EDQUOT; ++i) {
    error = b.bind(3, 4420).error;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(error, 0);
}

TEST(Quotas, AnUnknownPortSpaceIsRefused) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  EXPECT_EQ(
      a.ask({.type = MessageType::kBind, .space = 0x0107, .id = 1, .address = Gid::from_ipv4({})}).error,
      EINVAL);
}

TEST(Quotas, OfAUserForAllOfHisPrograms) {
  RunningService service(
      {.quotas = {.programs_per_user = 3, .numbers_per_user = 8192, .groups_per_user = 2}});
  std::vector<std::unique_ptr<FakeProgram>> programs;
  for (int i = 0; i < 2; ++i) {
    programs.push_back(std::make_unique<FakeProgram>(service.path()));
    ASSERT_EQ(programs.back()->attach().type, MessageType::kAttached);
    const Gid group = Gid::from_ipv4({239, 1, 2, static_cast<uint8_t>(i)});
    EXPECT_EQ(programs.back()->ask({.type = MessageType::kJoin, .address = group}).error, 0);
  }
  FakeProgram third(service.path());
  const Message refused = third.attach();
  EXPECT_EQ(refused.error, EDQUOT);
  EXPECT_NE(host::text_of(refused.text).find("service.numbers_per_user"), std::string_view::npos);
  const Message group =
      programs[0]->ask({.type = MessageType::kJoin, .address = Gid::from_ipv4({239, 1, 2, 9})});
  EXPECT_EQ(group.error, EDQUOT);
  EXPECT_NE(host::text_of(group.text).find("service.groups_per_user"), std::string_view::npos);
  // The other one ends. Expect: its membership is free at once, its numbers when they have rested.
  programs.pop_back();
  EXPECT_TRUE(soon([&] {
    return programs[0]->ask({.type = MessageType::kJoin, .address = Gid::from_ipv4({239, 1, 2, 9})}).error ==
           0;
  }));
  EXPECT_EQ(third.attach().error, EDQUOT);
  EXPECT_TRUE(soon([&] { return third.attach().type == MessageType::kAttached; }));
}

TEST(Quotas, OfMemoryAndDescriptors) {
  {
    RunningService service({.quotas = {.memory_mb_per_user = 8}});
    FakeProgram a(service.path());
    FakeProgram b(service.path());
    ASSERT_EQ(a.attach().type, MessageType::kAttached);
    EXPECT_NE(host::text_of(b.attach().text).find("service.memory_mb_per_user"), std::string_view::npos);
  }
  RunningService service({.quotas = {.descriptors_per_user = 5}});
  FakeProgram a(service.path());
  ASSERT_EQ(a.attach().type, MessageType::kAttached);
  FakeProgram b(service.path());
  EXPECT_NE(host::text_of(b.attach().text).find("service.descriptors_per_user"), std::string_view::npos);
}

TEST(Quotas, TheStatusIsLookedAtSoManyTimesASecond) {
  RunningService service;
  FakeProgram program(service.path());
  program.attach();
  FakeProgram client(service.path());
  std::string last = client.status();
  // Nothing else looks at the number of groups. Each of them is new in a look that was made behind it.
  const auto begin = std::chrono::steady_clock::now();
  int changes = 0;
  for (uint8_t i = 0; i < 200; ++i) {
    program.ask({.type = MessageType::kJoin, .address = Gid::from_ipv4({239, 1, 2, i})});
    const std::string text = client.status();
    ASSERT_FALSE(text.empty());
    changes += text != last ? 1 : 0;
    last = text;
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
  EXPECT_LE(changes, 10 + 10 * took.count() + 1);
}

TEST(Quotas, AreReadAgain) {
  RunningService service({.quotas = {.programs = 1}}, [] {
    return Result<service::Service::Configured>(
        {.service = {.quotas = {.programs = 2}}, .devices = one_device()});
  });
  FakeProgram a(service.path());
  FakeProgram b(service.path());
  a.attach();
  EXPECT_EQ(b.attach().error, EDQUOT);
  EXPECT_EQ(b.ask(hello(MessageType::kReload)).error, 0);
  EXPECT_EQ(b.attach().type, MessageType::kAttached);
}

TEST(Quotas, ConnectionsThatSayNothingAreFewAndShort) {
  RunningService service;
  std::vector<std::unique_ptr<FakeProgram>> silent;
  for (int i = 0; i < 64; ++i) silent.push_back(std::make_unique<FakeProgram>(service.path()));
  FakeProgram late(service.path());
  const auto pushed_out = silent.front()->receive();
  ASSERT_TRUE(pushed_out);
  EXPECT_EQ(pushed_out->message.error, EAGAIN);
  EXPECT_TRUE(silent.front()->closed());
  // Expect: the other silent ones hear why, and give room.
  for (const auto& one : std::span(silent).subspan(1)) {
    const auto ended = one->receive();
    ASSERT_TRUE(ended);
    EXPECT_EQ(ended->message.error, ETIMEDOUT);
    EXPECT_TRUE(one->closed());
  }
  FakeProgram next(service.path());
  EXPECT_EQ(next.attach().type, MessageType::kAttached);
}

/// A process that connects again and again, and has `kept` of its connections open. It writes a byte for
/// each, and allocates nothing: it has been forked from a process with threads.
[[noreturn]] void connect_in_a_loop(const std::string& path, size_t kept, std::chrono::microseconds pause,
                                    int written) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  std::array<int, 500> open{};
  open.fill(-1);
  sockaddr_un address{.sun_family = AF_UNIX};
  path.copy(address.sun_path, sizeof address.sun_path - 1);
  for (size_t next = 0;; next = (next + 1) % (kept + 1)) {
    if (open[next] >= 0) close(open[next]);
    open[next] = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    const bool connected =
        connect(open[next], reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
    if (connected && write(written, "c", 1) < 0) _exit(1);
    if (kept == 0) close(std::exchange(open[next], -1));
    std::this_thread::sleep_for(pause);
  }
}

/// Waits until so many bytes came.
void expect_bytes(int descriptor, size_t count) {
  std::array<char, 64> bytes{};
  while (count > 0) {
    const ssize_t got = read(descriptor, bytes.data(), std::min(count, bytes.size()));
    ASSERT_GT(got, 0);
    count -= static_cast<size_t>(got);
  }
}

// Programs of one user: one process connects in a loop, and others attach, each at its first attempt.
TEST(Quotas, AProcessThatConnectsInALoopHoldsUpNoOther) {
  for (const auto& [kept, pause] : {std::pair{size_t{400}, std::chrono::microseconds(1000)},
                                    {size_t{0}, std::chrono::microseconds(100)}}) {
    RunningService service;
    std::array<int, 2> ends{};
    ASSERT_EQ(pipe(ends.data()), 0);
    const Descriptor written(ends[0]);
    Descriptor writes(ends[1]);
    const std::string path = service.path();
    const pid_t flood = fork();
    ASSERT_GE(flood, 0);
    if (flood == 0) connect_in_a_loop(path, kept, pause, writes.get());
    writes = {};
    expect_bytes(written.get(), 200);
    for (int i = 0; i < 10; ++i) {
      FakeProgram honest(path);
      EXPECT_EQ(honest.attach().type, MessageType::kAttached) << "program " << i << ", kept " << kept;
      expect_bytes(written.get(), 10);
    }
    kill(flood, SIGKILL);
    waitpid(flood, nullptr, 0);
  }
}

TEST(Quotas, AConnectionThatAsksAndDoesNotAttachIsShort) {
  RunningService service;
  FakeProgram asking(service.path());
  const auto start = std::chrono::steady_clock::now();
  int answers = 0;
  for (bool ended = false; !ended && std::chrono::steady_clock::now() - start < std::chrono::seconds(20);) {
    const Message answer = asking.ask(hello(MessageType::kList));
    ended = answer.error != 0;
    answers += ended ? 0 : 1;
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
  EXPECT_GT(answers, 10);
  EXPECT_TRUE(asking.closed());
}

TEST(Quotas, AFloodOfRequestsIsReadSlowly) {
  RunningService service;
  FakeProgram flooder(service.path());
  FakeProgram other(service.path());
  flooder.attach();
  other.attach();
  std::atomic<bool> stop{false};
  std::thread flood([&] {
    // Never reads: the service reads no more of it than it can answer.
    Message message{.type = MessageType::kListen, .id = 1};
    while (!stop) send(flooder.socket(), &message, sizeof message, MSG_DONTWAIT | MSG_NOSIGNAL);
  });
  for (int i = 0; i < 200; ++i) EXPECT_EQ(other.bind(static_cast<uint64_t>(i), 0).error, 0);
  stop = true;
  flood.join();
}

}  // namespace
}  // namespace uroce::testing
