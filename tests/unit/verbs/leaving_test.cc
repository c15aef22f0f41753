#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "ends.h"

// A program may leave in any way; the threads of the stack neither keep it nor crash it. Each runs in a
// process of its own, started afresh.

namespace uroce::verbs_test {

class Leaving : public ::testing::Test {
 protected:
  void SetUp() override { testing::FLAGS_gtest_death_test_style = "threadsafe"; }

  /// Two connected ends in the middle of traffic, which will not be destroyed.
  static void leave_work_behind() {
    one = new End(device_at(0), {.with_channel = true});
    other = new End(device_at(1), {});
    connect(*one, *other);
    ibv_sge segment = one->all();
    for (uint64_t i = 0; i < 16; ++i) (void)one->send(write_request(i, segment, *other));
  }
  static inline End* one = nullptr;
  static inline End* other = nullptr;
};

using LeavingDeathTest = Leaving;

TEST_F(LeavingDeathTest, ByExitWithoutClosingAnything) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LeavingDeathTest, ByUnderscoreExit) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        _exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LeavingDeathTest, ByExitOnAnotherThread) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        std::thread([] { std::exit(0); }).join();
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LeavingDeathTest, ByClosingTheDeviceOnly) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        if (ibv_close_device(one->context) != 0 || ibv_close_device(other->context) != 0) std::exit(1);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

TEST_F(LeavingDeathTest, InAChildThatExitsWhileTheParentGoesOn) {
  EXPECT_EXIT(
      {
        leave_work_behind();
        if (fork() == 0) std::exit(0);
        std::exit(0);
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace uroce::verbs_test
