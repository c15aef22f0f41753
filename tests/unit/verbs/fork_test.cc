#include <gtest/gtest.h>
#include <infiniband/verbs.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include "ends.h"

namespace uroce::verbs_test {

/// Runs `body` in a child and expects that it returns 0; the child leaves without running anything else.
template <typename Body>
void in_child(Body body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) _exit(body());
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "status " << status;
  EXPECT_EQ(WEXITSTATUS(status), 0) << "check number";
}

TEST(Fork, AChildDoesNotHangOnWhatItInherited) {
  End one(device_at(0), {.with_channel = true});
  End other(device_at(1), {});
  connect(one, other);
  in_child([&] {
    ibv_sge segment = one.part(0, 8);
    ibv_wc completion{};
    ibv_port_attr port{};
    ibv_cq* cq = nullptr;
    void* cq_context = nullptr;
    if (one.send(write_request(1, segment, other)) != EIO) return 1;
    if (one.receive(1, one.all()) != EIO) return 2;
    if (ibv_poll_cq(one.cq, 1, &completion) >= 0) return 3;
    if (ibv_query_port(one.context, 1, &port) != EIO) return 4;
    if (ibv_get_cq_event(one.channel, &cq, &cq_context) != -1) return 5;
    if (ibv_destroy_qp(one.qp) != EIO) return 6;
    if (ibv_dereg_mr(one.mr) != EIO) return 7;
    return ibv_close_device(one.context) == 0 ? 0 : 8;
  });
  // The parent does not notice.
  one.fill(1);
  ibv_sge segment = one.all();
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.memory, other.memory);
}

TEST(Fork, AChildHasDevicesOfItsOwn) {
  End one(device_at(0), {});
  End other(device_at(1), {});
  connect(one, other);
  in_child([&] {
    End own(one.context->device, {});
    End far(other.context->device, {});
    connect(own, far);
    own.fill(3);
    ibv_sge segment = own.all();
    if (own.send(write_request(1, segment, far)) != 0) return 1;
    if (own.next().status != IBV_WC_SUCCESS || own.memory != far.memory) return 2;
    // What it has inherited stays dead beside them.
    segment = one.part(0, 8);
    if (one.send(write_request(1, segment, other)) != EIO) return 3;
    return 0;
  });
  one.fill(1);
  ibv_sge segment = one.all();
  ASSERT_EQ(one.send(write_request(1, segment, other)), 0);
  EXPECT_EQ(one.next().status, IBV_WC_SUCCESS);
  EXPECT_EQ(one.memory, other.memory);
}

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
constexpr bool kHeapHangs = true;  // AddressSanitizer's may, in the child of a process with several threads
#else
constexpr bool kHeapHangs = false;
#endif

constexpr int kManyDevices = 200;

bool lists_devices() {
  int count = 0;
  ibv_device** const list = ibv_get_device_list(&count);
  if (list == nullptr) return false;
  ibv_free_device_list(list);
  return count == kManyDevices;
}

/// While a thread makes the first list of this process, children list devices, too. Returns how many did not;
/// one that hangs is ended by its alarm.
int fork_during_the_first_list() {
  std::atomic<bool> listed{false};
  std::thread other([&] {
    lists_devices();
    listed = true;
  });
  std::vector<pid_t> children;
  while (!listed) {
    children.push_back(fork());
    if (children.back() != 0) continue;
    alarm(10);
    _exit(lists_devices() ? 0 : 1);
  }
  other.join();
  int failed = 0;
  for (const pid_t child : children) {
    int status = 0;
    failed += waitpid(child, &status, 0) == child && status == 0 ? 0 : 1;
  }
  return failed;
}

TEST(Fork, WhileAnotherThreadMakesTheFirstList_ExpectTheChildToHaveOne) {
  if (kHeapHangs) GTEST_SKIP() << "the sanitizer's heap is used";
  constexpr int kProcesses = 10;
  GTEST_FLAG_SET(death_test_style, "threadsafe");  // a process that has listed nothing
  EXPECT_EXIT(
      {
        std::string text;
        for (int i = 0; i < kManyDevices; ++i)
          text += "[[device]]\ninterface = \"none" + std::to_string(i) + "\"\n";
        setenv("UROCE_CONFIG_TEXT", text.c_str(), 1);
        for (int i = 0; i < kProcesses && !HasFailure(); ++i) in_child(fork_during_the_first_list);
        _exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(Fork, RegisteredMemoryStaysWithTheParent) {
  // A program that forks while a transfer into its memory is going on sees the data all the same:
  // is_fork_initialized.
  EXPECT_EQ(ibv_fork_init(), 0);
  EXPECT_EQ(ibv_is_fork_initialized(), IBV_FORK_UNNEEDED);
}

}  // namespace uroce::verbs_test
