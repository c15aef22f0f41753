#include "service/descriptor_closer.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <semaphore>
#include <set>

#include "engine/platform/clock.h"
#include "tests/support/packet.h"
#include "tests/support/soon.h"

namespace uroce::testing {
namespace {

using service::DescriptorCloser;

constexpr uid_t kAttacker = 12345;
constexpr uid_t kVictim = 12346;

Descriptor any_descriptor() { return Descriptor(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

std::vector<Descriptor> one(Descriptor descriptor) {
  std::vector<Descriptor> all;
  all.push_back(std::move(descriptor));
  return all;
}

/// Descriptors of which some are never closed before they are let go. Threads that hang may outlive the test.
struct Hanging {
  std::mutex mutex;
  std::set<int> hangs;
  std::counting_semaphore<> let_go{0};
  std::atomic<size_t> closed{0};

  Descriptor next(bool hangs_at_it) {
    Descriptor descriptor = any_descriptor();
    const std::lock_guard guard(mutex);
    if (hangs_at_it) hangs.insert(descriptor.get());
    return descriptor;
  }
};

DescriptorCloser::Close hanging_close(const std::shared_ptr<Hanging>& hanging) {
  return [hanging](const Descriptor& descriptor) {
    bool hangs = false;
    {
      const std::lock_guard guard(hanging->mutex);
      hangs = hanging->hangs.erase(descriptor.get()) != 0;
    }
    if (hangs) hanging->let_go.acquire();
    ++hanging->closed;
  };
}

/// A connected socket that has more to send than its peer takes, and lingers.
struct Lingering {
  explicit Lingering(int seconds) : listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof address;
    auto* const at = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener.get(), at, length), 0);
    EXPECT_EQ(listen(listener.get(), 1), 0);
    EXPECT_EQ(getsockname(listener.get(), at, &length), 0);
    sender = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(connect(sender.get(), at, length), 0);
    receiver = Descriptor(accept(listener.get(), nullptr, nullptr));
    const std::vector<char> bytes(1 << 16);
    while (send(sender.get(), bytes.data(), bytes.size(), MSG_DONTWAIT) > 0) continue;
    const linger time{.l_onoff = 1, .l_linger = seconds};
    EXPECT_EQ(setsockopt(sender.get(), SOL_SOCKET, SO_LINGER, &time, sizeof time), 0);
  }

  Descriptor listener;
  Descriptor sender;
  Descriptor receiver;
};

TEST(DescriptorCloser, AThreadThatHangsIsReplaced) {
  const auto hanging = std::make_shared<Hanging>();
  DescriptorCloser closer(hanging_close(hanging));
  closer.close(kAttacker, one(hanging->next(true)));
  closer.close(kVictim, one(hanging->next(false)));
  std::optional<uid_t> hung;
  EXPECT_TRUE(soon([&] { return (hung = closer.look(engine::clock_now())).has_value(); }));
  EXPECT_EQ(hung, kAttacker);
  // Expect: the victim's is closed by another thread, and the first one ends when it comes back.
  EXPECT_TRUE(soon([&] { return hanging->closed == 1; }));
  hanging->let_go.release();
  EXPECT_TRUE(soon([&] { return hanging->closed == 2; }));
}

TEST(DescriptorCloser, AThreadThatIsBusyForAMomentIsNotReplaced) {
  const auto hanging = std::make_shared<Hanging>();
  DescriptorCloser closer(hanging_close(hanging));
  closer.close(kAttacker, one(hanging->next(true)));
  EXPECT_TRUE(soon([&] { return closer.deadline() != kNever; }));
  const Instant now = engine::clock_now();
  EXPECT_FALSE(closer.look(now));
  EXPECT_FALSE(closer.look(now + microseconds(1)));
  hanging->let_go.release();
  EXPECT_TRUE(soon([&] { return closer.deadline() == kNever; }));
  EXPECT_FALSE(closer.look(now + seconds(1)));
}

TEST(DescriptorCloser, AUserWhoseDescriptorsHangSendsNoMore) {
  const auto hanging = std::make_shared<Hanging>();
  DescriptorCloser closer(hanging_close(hanging));
  for (size_t i = 0; i < DescriptorCloser::kUnfinishedOfUserMax; ++i) {
    EXPECT_TRUE(closer.admits(kAttacker));
    closer.close(kAttacker, one(hanging->next(true)));
  }
  EXPECT_FALSE(closer.admits(kAttacker));
  EXPECT_TRUE(closer.admits(kVictim));
  // Expect: the user may send again as soon as they are closed.
  hanging->let_go.release(DescriptorCloser::kUnfinishedOfUserMax);
  EXPECT_TRUE(soon([&] { return closer.admits(kAttacker); }));
}

TEST(DescriptorCloser, AtTheBoundOfAllUsersOnlyItsOwnUsersSend) {
  const auto hanging = std::make_shared<Hanging>();
  DescriptorCloser closer(hanging_close(hanging));
  for (size_t i = 0; i < DescriptorCloser::kUnfinishedMax; ++i)
    closer.close(kAttacker + static_cast<uid_t>(i), one(hanging->next(true)));
  EXPECT_FALSE(closer.admits(kAttacker + DescriptorCloser::kUnfinishedMax));
  EXPECT_TRUE(closer.admits(0));
  EXPECT_TRUE(closer.admits(geteuid()));
  // Expect: there is a thread for each of them, and one for what comes later.
  closer.close(0, one(hanging->next(false)));
  EXPECT_TRUE(soon([&] { return closer.look(engine::clock_now()), hanging->closed == 1; }));
  hanging->let_go.release(DescriptorCloser::kUnfinishedMax);
  EXPECT_TRUE(soon([&] { return closer.admits(kAttacker + DescriptorCloser::kUnfinishedMax); }));
}

TEST(DescriptorCloser, NoConnectionIsTakenWhileTooManyWait) {
  const auto hanging = std::make_shared<Hanging>();
  DescriptorCloser closer(hanging_close(hanging));
  closer.close(kAttacker, one(hanging->next(true)));
  EXPECT_TRUE(soon([&] { return closer.deadline() != kNever; }));
  std::vector<Descriptor> many;
  // Numbers that there are not: nothing is closed really.
  constexpr int kFirst = 1 << 28;
  for (int i = 0; i < static_cast<int>(DescriptorCloser::kWaitingMax); ++i) many.emplace_back(kFirst + i);
  EXPECT_FALSE(closer.full());
  closer.close(kAttacker, std::move(many));
  EXPECT_TRUE(closer.full());
  hanging->let_go.release();
  EXPECT_TRUE(soon([&] { return !closer.full(); }));
}

TEST(DescriptorCloser, ASocketThatLingersDoesNotKeepTheThread) {
  Lingering direct(1);
  const Instant before = engine::clock_now();
  { const Descriptor closed = std::move(direct.sender); }
  ASSERT_GE(engine::clock_now() - before, milliseconds(500)) << "closing does not wait on this machine";
  constexpr int kHour = 3600;
  DescriptorCloser closer;
  std::vector<Descriptor> many;
  std::vector<Lingering> peers;
  for (int i = 0; i < 8; ++i) {
    peers.emplace_back(kHour);
    many.push_back(std::move(peers.back().sender));
  }
  closer.close(kAttacker, std::move(many));
  closer.close(kAttacker, one(any_descriptor()));
  EXPECT_FALSE(closer.admits(kAttacker));
  EXPECT_TRUE(soon([&] { return closer.admits(kAttacker); }));
}

TEST(DescriptorCloser, AConnectionEndsAtOnceAndDescriptorsInItsQueueWithIt) {
  constexpr int kHour = 3600;
  DescriptorCloser closer;
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor program(ends[0]);
  Lingering lingering(kHour);
  const std::array sent = {lingering.sender.get()};
  ASSERT_TRUE(send_packet(program.get(), std::as_bytes(std::span("x")), sent));
  lingering.sender = Descriptor();
  closer.close_connection(kAttacker, Descriptor(ends[1]));
  pollfd source{.fd = program.get(), .events = 0, .revents = 0};
  EXPECT_EQ(poll(&source, 1, 0), 1);
  EXPECT_NE(source.revents & POLLHUP, 0);
  // One thread closes all, in order.
  closer.close(kAttacker, one(any_descriptor()));
  EXPECT_TRUE(soon([&] { return closer.admits(kAttacker) && closer.deadline() == kNever; }));
}

TEST(DescriptorCloser, ItEndsWhileAThreadHangs) {
  const auto hanging = std::make_shared<Hanging>();
  {
    DescriptorCloser closer(hanging_close(hanging));
    closer.close(kAttacker, one(hanging->next(true)));
    closer.close(kVictim, one(hanging->next(false)));
  }
  EXPECT_EQ(hanging->closed, 1u);
  hanging->let_go.release();
  EXPECT_TRUE(soon([&] { return hanging->closed == 2; }));
}

}  // namespace
}  // namespace uroce::testing
