// A device works without what tools find it by, where the process may have no such memory or thread.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <thread>

#include "connected_pair.h"
#include "engine/device/debug_commands.h"
#include "engine/device/statistics.h"
#include "host/orders_format.h"
#include "host/process_memory.h"
#include "host/statistics_format.h"
#include "loopback.h"
#include "tests/support/refused_call.h"

namespace uroce::engine {
namespace {

/// Memories of that name which tools would find.
int shown(std::string_view wanted) {
  return static_cast<int>(host::memories_of(getpid(), {&wanted, 1}).size());
}

/// In a thread of its own, which the refusal ends with.
template <typename Body>
void where_refused(std::initializer_list<unsigned> calls, unsigned error, Body body) {
  std::thread thread([&] {
    for (const unsigned call : calls) ASSERT_TRUE(refuse_call(call, error));
    body();
  });
  thread.join();
}

TEST(WithoutTools, DevicesOpenWhereThereIsNoSuchMemory) {
  where_refused({SYS_memfd_create}, EMFILE, [] {
    testing::internal::CaptureStderr();
    Loopback both;
    const std::string lines = testing::internal::GetCapturedStderr();
    ASSERT_EQ(both.devices.size(), 2u);
    EXPECT_EQ(lines,
              "uroce: uroce-statistics: Too many open files: tools see no counters of this process\n"
              "uroce: uroce-orders: Too many open files: this process takes no orders of tools\n");
    EXPECT_EQ(shown(host::kStatisticsName), 0);
    EXPECT_EQ(shown(host::kOrdersName), 0);
    expect_a_write(both.devices[0], both.devices[1]);
  });
  // Where there is, both are found.
  Loopback both;
  EXPECT_EQ(shown(host::kStatisticsName), 1);
  EXPECT_EQ(shown(host::kOrdersName), 1);
}

TEST(WithoutTools, NothingIsSaidOfItWhereOnlyErrorsAre) {
  where_refused({SYS_memfd_create}, EMFILE, [] {
    testing::internal::CaptureStderr();
    Configuration configuration = embedded_pair();
    configuration.log_level = "error";
    Loopback both(configuration);
    EXPECT_EQ(testing::internal::GetCapturedStderr(), "");
    EXPECT_EQ(both.devices.size(), 2u);
  });
}

/// Pollers need threads, too, so the devices are there already.
TEST(WithoutTools, NoOrdersAreTakenWhereThereIsNoThread) {
  Loopback both;
  DebugCommands& orders = DebugCommands::of_process();
  for (const auto& device : both.devices) orders.remove(*device);
  ASSERT_EQ(shown(host::kOrdersName), 0);
  where_refused({SYS_clone, SYS_clone3}, EAGAIN, [&] {
    const Status status = orders.add(*both.devices[0], {});
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, EAGAIN);
  });
  EXPECT_EQ(shown(host::kOrdersName), 0);
  // With a later device they are, for both.
  EXPECT_TRUE(orders.add(*both.devices[1], {}));
  EXPECT_EQ(shown(host::kOrdersName), 1);
  orders.remove(*both.devices[1]);
  EXPECT_EQ(shown(host::kOrdersName), 1);
  orders.remove(*both.devices[0]);
  EXPECT_EQ(shown(host::kOrdersName), 0);
}

TEST(WithoutTools, CountersAreNotShownWhereThereIsNoThread) {
  Statistics statistics;
  ASSERT_TRUE(statistics.make(1, 1));
  where_refused({SYS_clone, SYS_clone3}, EAGAIN, [&] {
    const Status status = statistics.start(false);
    ASSERT_FALSE(status);
    EXPECT_EQ(status.error().code, EAGAIN);
  });
  EXPECT_EQ(statistics.counters_of(0).size(), 1u);
  statistics.stop();
}

}  // namespace
}  // namespace uroce::engine
