// A process may end, or fork, with devices open and traffic under way: it must neither hang nor crash.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <thread>

#include "connected_pair.h"
#include "loopback.h"

namespace uroce::engine {
namespace {

class ProcessEnd : public testing::TestWithParam<PollerMode> {
 protected:
  ProcessEnd() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  static Configuration configuration() {
    Configuration configuration = embedded_pair();
    configuration.poller_mode = GetParam();
    return configuration;
  }
};

/// Devices with traffic between them, as global objects of a program that never closes anything.
struct Traffic {
  explicit Traffic(const Configuration& configuration)
      : loopback(configuration), left(loopback.devices[0], 1 << 20), right(loopback.devices[1], 1 << 20) {
    EXPECT_EQ(connect_pair(left, right), 0);
    for (int i = 0; i < 16; ++i) left.post_write(right, 1 << 20);
  }
  Loopback loopback;
  Side left;
  Side right;
};

Traffic* kept = nullptr;

TEST_P(ProcessEnd, ByExitWithoutClosing) {
  EXPECT_EXIT(
      {
        kept = new Traffic(configuration());
        std::exit(3);
      },
      testing::ExitedWithCode(3), "");
}

TEST_P(ProcessEnd, TellsTheCountersWhenAsked) {
  Configuration telling = configuration();
  telling.log_counters = true;
  EXPECT_EXIT(
      {
        kept = new Traffic(telling);
        std::exit(3);
      },
      testing::ExitedWithCode(3), "uroce0: counters .*tx_frames [0-9]+");
}

TEST_P(ProcessEnd, ByExitWhileAnotherThreadPolls) {
  EXPECT_EXIT(
      {
        kept = new Traffic(configuration());
        Traffic& traffic = *kept;
        std::thread([&] {
          for (;;) (void)traffic.left.poll();
        }).detach();
        std::exit(3);
      },
      testing::ExitedWithCode(3), "");
}

TEST_P(ProcessEnd, ByImmediateExit) {
  EXPECT_EXIT(
      {
        kept = new Traffic(configuration());
        _exit(3);
      },
      testing::ExitedWithCode(3), "");
}

std::unique_ptr<Traffic> closed_late;

TEST_P(ProcessEnd, ByDestructorsAfterOurOwnEnd) {
  EXPECT_EXIT(
      {
        // The destructor of a global object runs after what was registered later, our own end included.
        closed_late = std::make_unique<Traffic>(configuration());
        std::exit(3);
      },
      testing::ExitedWithCode(3), "");
}

TEST_P(ProcessEnd, OfAForkedChildThatKeepsUsingTheDevice) {
  EXPECT_EXIT(
      {
        kept = new Traffic(configuration());
        Traffic& traffic = *kept;
        // A sanitizer's locks do not survive a fork while another thread starts, so that the child would wait
        // for them at its end.
        usleep(100'000);
        const pid_t child = fork();
        if (child == 0) {
          // Whatever it does, nothing blocks and nothing happens.
          Device& device = *traffic.loopback.devices[0];
          device.ring_doorbell(traffic.left.queue_pair());
          device.turn_for(traffic.left.completions());
          qp::Attributes attributes = device.query_queue_pair(traffic.left.queue_pair());
          const bool refused =
              device.modify_queue_pair(traffic.left.queue_pair(), attributes, qp::kMaskState) == ENODEV;
          const bool closed = traffic.loopback.stack->open(0).error().code == ENODEV;
          device.destroy_queue_pair(traffic.left.queue_pair());
          traffic.loopback.devices.clear();
          std::exit(refused && closed ? 5 : 6);
        }
        int status = 0;
        waitpid(child, &status, 0);
        // The parent goes on.
        while (traffic.left.wait().status != queue::CompletionStatus::kSuccess) continue;
        std::exit(WIFEXITED(status) ? WEXITSTATUS(status) : 7);
      },
      testing::ExitedWithCode(5), "");
}

INSTANTIATE_TEST_SUITE_P(Modes, ProcessEnd, testing::Values(PollerMode::kInline, PollerMode::kDedicated));

}  // namespace
}  // namespace uroce::engine
