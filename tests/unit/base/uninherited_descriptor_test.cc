#include "base/process/uninherited_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace uroce {
namespace {

std::pair<Descriptor, Descriptor> connected() {
  std::array<int, 2> ends{};
  EXPECT_EQ(socketpair(AF_UNIX, SOCK_SEQPACKET, 0, ends.data()), 0);
  return {Descriptor(ends[0]), Descriptor(ends[1])};
}

/// The child's answer; it is still there when `body` has run in the parent.
template <typename Body>
int beside_child(int (*child)(int), int argument, Body body) {
  std::array<int, 2> ends{};
  EXPECT_EQ(pipe(ends.data()), 0);
  const pid_t process = fork();
  if (process == 0) {
    const int answer = child(argument);
    char byte = 0;
    close(ends[1]);
    _exit(read(ends[0], &byte, 1) == 0 ? answer : 99);
  }
  body();
  close(ends[0]);
  close(ends[1]);
  int status = 0;
  EXPECT_EQ(waitpid(process, &status, 0), process);
  return WEXITSTATUS(status);
}

int is_open(int descriptor) { return fcntl(descriptor, F_GETFD) < 0 ? 0 : 1; }

TEST(UninheritedDescriptor, TheOtherEndNoticesTheEndBesideAChild) {
  auto [ours, far] = connected();
  UninheritedDescriptor held(std::move(ours));
  const int answer = beside_child(is_open, held.get(), [&] {
    held = UninheritedDescriptor();
    char byte = 0;
    EXPECT_EQ(recv(far.get(), &byte, 1, 0), 0);
  });
  EXPECT_EQ(answer, 0);
}

TEST(UninheritedDescriptor, WhatHasItsNumberNowStaysOpen) {
  auto [ours, far] = connected();
  const UninheritedDescriptor held(std::move(ours));
  // The program closes what it does not know, and opens a file.
  ASSERT_EQ(dup2(STDIN_FILENO, held.get()), held.get());
  EXPECT_EQ(beside_child(is_open, held.get(), [] {}), 1);
  EXPECT_FALSE(held.is_open());
}

TEST(UninheritedDescriptor, WhatIsBeingOpenedIsNotInherited) {
  std::promise<int> there;
  UninheritedDescriptor held;
  std::thread opening([&] {
    held = UninheritedDescriptor::opened([&] {
      Descriptor descriptor(open("/dev/null", O_RDONLY));
      there.set_value(descriptor.get());
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      return descriptor;
    });
  });
  EXPECT_EQ(beside_child(is_open, there.get_future().get(), [] {}), 0);
  opening.join();
  EXPECT_TRUE(held.is_open());
}

TEST(UninheritedDescriptor, WhatCannotBeOpened_ExpectNoneAndTheReason) {
  const auto none =
      UninheritedDescriptor::opened([] { return Descriptor(open("/does/not/exist", O_RDONLY)); });
  EXPECT_EQ(errno, ENOENT);
  EXPECT_FALSE(none.ok());
  EXPECT_FALSE(none.is_open());
}

TEST(UninheritedDescriptor, AChildsOwnWithTheSameNumberIsNotClosedByTheParents) {
  auto [ours, far] = connected();
  auto* const held = new UninheritedDescriptor(std::move(ours));
  const pid_t process = fork();
  if (process == 0) {
    const int number = held->get();
    if (open("/dev/null", O_RDONLY) != number) _exit(1);
    delete held;
    _exit(is_open(number) != 0 ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(waitpid(process, &status, 0), process);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  delete held;
}

}  // namespace
}  // namespace uroce
