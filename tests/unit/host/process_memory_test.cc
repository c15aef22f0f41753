#include "host/process_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "tests/unit/ports/temporary_folder.h"

namespace uroce::testing {
namespace {

int error_of(int descriptor, int access = O_RDWR) {
  const auto opened = host::open_memory(getpid(), descriptor, access);
  return opened ? 0 : opened.error().code;
}

TEST(OpenMemory, IsTheSameMemory) {
  const Descriptor memory(memfd_create("test", MFD_CLOEXEC));
  ASSERT_EQ(ftruncate(memory.get(), 4096), 0);
  const auto opened = host::open_memory(getpid(), memory.get(), O_RDWR);
  ASSERT_TRUE(opened) << opened.error().message;
  ASSERT_EQ(pwrite(opened->get(), "x", 1, 7), 1);
  char byte = 0;
  EXPECT_EQ(pread(memory.get(), &byte, 1, 7), 1);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(fcntl(opened->get(), F_GETFD), FD_CLOEXEC);
  EXPECT_EQ(error_of(-1), ENOENT);
}

TEST(OpenMemory, NothingElseIsOpened) {
  TemporaryFolder folder;
  const std::string fifo = folder.path() + "/fifo";
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  // To be opened, it would wait for a writer.
  const Descriptor waits(open(fifo.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  EXPECT_EQ(error_of(waits.get(), O_RDONLY), ENOENT);
  std::array<int, 2> ends{};
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()), 0);
  const Descriptor one(ends[0]);
  const Descriptor other(ends[1]);
  EXPECT_EQ(error_of(one.get()), ENOENT);
  for (const char* path : {"/dev/null", "/proc/self/status", "/dev/shm", "/tmp"}) {
    const Descriptor file(open(path, O_RDONLY | O_CLOEXEC));
    EXPECT_EQ(error_of(file.get(), O_RDONLY), ENOENT) << path;
  }
  if (const Descriptor huge(memfd_create("test", MFD_HUGETLB | MFD_CLOEXEC)); huge.ok()) {
    EXPECT_EQ(error_of(huge.get()), ENOENT);
  }
}

TEST(OpenMemory, ALeaseOfItsOwnerIsNotWaitedFor) {
  const Descriptor memory(memfd_create("test", MFD_CLOEXEC));
  if (fcntl(memory.get(), F_SETLEASE, F_WRLCK) != 0) GTEST_SKIP() << "this kernel has no lease for a memfd";
  signal(SIGIO, SIG_IGN);
  EXPECT_EQ(error_of(memory.get()), EWOULDBLOCK);
  signal(SIGIO, SIG_DFL);
}

}  // namespace
}  // namespace uroce::testing
