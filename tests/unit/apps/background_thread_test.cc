#include "apps/mem/background_thread.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace uroce::memory_export {
namespace {

struct Pieces {
  int number = 0;
  int left = 1;
};

std::atomic<bool> at_work{false};
std::atomic<bool> may_go_on{false};
std::atomic<int> newest{0};  // number of the job that a piece was done of last

/// One piece, once it may. The result is the number.
std::optional<int> do_piece(Pieces& job) {
  newest = job.number;
  at_work = true;
  while (!may_go_on) std::this_thread::yield();
  return --job.left == 0 ? std::optional(job.number) : std::nullopt;
}

using Worker = BackgroundThread<Pieces, int>;

class BackgroundThreadTest : public ::testing::Test {
 protected:
  BackgroundThreadTest() {
    at_work = may_go_on = false;
    newest = 0;
  }
  /// The thread has taken the first job, and holds on there.
  static void begin(Worker& worker, const Pieces& job) {
    worker.submit(job);
    while (!at_work) std::this_thread::yield();
  }
  static std::vector<int> finish(Worker& worker, size_t count) {
    may_go_on = true;
    std::vector<int> results;
    pollfd ready{.fd = worker.descriptor(), .events = POLLIN, .revents = 0};
    while (results.size() < count && poll(&ready, 1, 20'000) == 1)
      for (const int result : worker.take()) results.push_back(result);
    return results;
  }
};

TEST_F(BackgroundThreadTest, LongJob_ExpectShortOnesNotToWaitForIt) {
  Worker worker(do_piece);
  begin(worker, {1, 3});
  worker.submit({2});
  worker.submit({3});
  EXPECT_EQ(finish(worker, 3), (std::vector{2, 3, 1}));
  EXPECT_TRUE(worker.take().empty());
}

TEST_F(BackgroundThreadTest, MoreThanMayWait_ExpectTheFirstForgotten) {
  Worker worker(do_piece, 2);
  begin(worker, {1});
  for (int number = 2; number <= 4; ++number) worker.submit({number});
  EXPECT_EQ(finish(worker, 3), (std::vector{1, 3, 4}));
}

TEST_F(BackgroundThreadTest, EndWithJobsThatWait_ExpectThemNotDone) {
  auto worker = std::make_unique<Worker>(do_piece);
  begin(*worker, {1});
  worker->submit({2});
  // Job 1 is over some time after the end of the thread was asked for.
  std::jthread later([] {
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
    may_go_on = true;
  });
  worker.reset();
  EXPECT_TRUE(may_go_on) << "the end waits for the piece under way";
  EXPECT_EQ(newest, 1);
}

}  // namespace
}  // namespace uroce::memory_export
