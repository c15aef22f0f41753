// Opening: what is wrong is said in one line that names it.

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "drivers/block_registry.h"
#include "tests/support/refused_call.h"
#include "tests/unit/block/storage.h"

namespace uroce::testing {
namespace {

using drivers::BlockSpecification;
using drivers::open_block_device;

void expect_refused(const BlockSpecification& specification, int code, const std::string& words) {
  const auto device = open_block_device(specification);
  ASSERT_FALSE(device.ok()) << words;
  EXPECT_EQ(device.error().code, code) << device.error().message;
  EXPECT_NE(device.error().message.find(words), std::string::npos)
      << device.error().message << "\n  " << words;
  EXPECT_EQ(device.error().message.find('\n'), std::string::npos);
}

/// In a process of its own, which a change of rights does not outlive.
void expect_refused_after(const std::function<bool()>& change, const BlockSpecification& specification,
                          int code, const std::string& words) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (!change()) ::_exit(77);
    const auto device = open_block_device(specification);
    if (!device.ok()) std::fprintf(stderr, "%s\n", device.error().message.c_str());
    ::_exit(!device.ok() && device.error().code == code &&
                    device.error().message.find(words) != std::string::npos
                ? 0
                : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "this process may not give up its capabilities";
  EXPECT_EQ(WEXITSTATUS(status), 0) << words;
}

TEST(BlockRegistry, RefusesWhatMakesNoSense) {
  struct Case {
    BlockSpecification specification;
    const char* words;
  };
  const std::vector<Case> cases = {
      {{.driver = "nul", .size_bytes = 4096}, "no block driver 'nul' (there are null, ram, file)"},
      {{.driver = "", .size_bytes = 4096}, "no block driver ''"},
      {{.driver = "null"}, "null: size is missing"},
      {{.driver = "ram"}, "ram: size is missing"},
      {{.driver = "ram", .size_bytes = 0}, "ram: size is 0"},
      {{.driver = "ram", .size_bytes = 1000}, "ram: size 1000 is not a multiple of the block size 512"},
      {{.driver = "ram", .size_bytes = 512, .block_bytes = 4096},
       "ram: size 512 is not a multiple of the block size 4096"},
      {{.driver = "ram", .size_bytes = 4096, .block_bytes = 1024},
       "ram: block size 1024 is neither 512 nor 4096"},
      {{.driver = "null", .size_bytes = 4096, .block_bytes = 0},
       "null: block size 0 is neither 512 nor 4096"},
      {{.driver = "ram", .path = "/x", .size_bytes = 4096}, "ram: takes no path (/x)"},
      {{.driver = "null", .size_bytes = 4096, .memory_node = 0}, "null: takes no memory node"},
      {{.driver = "ram", .size_bytes = 4096, .memory_node = 999}, "ram: no memory node 999"},
      {{.driver = "ram", .size_bytes = 4096, .memory_node = -1}, "ram: no memory node -1"},
      {{.driver = "ram", .size_bytes = 4096, .memory_node = 1024}, "ram: no memory node 1024"},
      {{.driver = "file"}, "file : path is missing"},
      {{.driver = "file", .size_bytes = 4096}, "file : path is missing"},
      {{.driver = "file", .path = "/x", .size_bytes = 1000}, "file /x: size 1000 is not a multiple"},
      {{.driver = "file", .path = "/x", .memory_node = 0}, "file /x: takes no memory node"},
  };
  for (const Case& one : cases) expect_refused(one.specification, EINVAL, one.words);
}

TEST(BlockRegistry, RefusesMoreMemoryThanThereIs) {
  for (const uint64_t size : {uint64_t{1} << 46, uint64_t{1} << 62, ~uint64_t{0} << 12})
    expect_refused({.driver = "ram", .size_bytes = size}, ENOMEM,
                   "ram: no " + std::to_string(size) + " bytes of memory");
}

TEST(BlockRegistry, OpensANullDeviceOfAnySize) {
  const auto device = open_block_device({.driver = "null", .size_bytes = ~uint64_t{0} << 12});
  ASSERT_TRUE(device.ok());
  EXPECT_EQ((*device)->properties().blocks, (~uint64_t{0} << 12) / 512);
}

TEST(BlockRegistry, OpensMemoryOfAChosenNode) {
  const auto device = open_block_device({.driver = "ram", .size_bytes = 3 << 20, .memory_node = 0});
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ((*device)->memory().size(), size_t{3} << 20);
}

class BlockFiles : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string path_ = folder_.make_file("contents", 1 << 20);
};

TEST_F(BlockFiles, ThatCannotBeUsedAreRefused) {
  expect_refused({.driver = "file", .path = "/no/such"}, ENOENT, "file /no/such: No such file or directory");
  expect_refused({.driver = "file", .path = folder_.path()}, EISDIR,
                 "file " + folder_.path() + ": Is a directory");
  expect_refused({.driver = "file", .path = "/dev/null"}, ENOTSUP,
                 "file /dev/null: neither a regular file nor a block device");
  const std::string fifo = folder_.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  expect_refused({.driver = "file", .path = fifo}, ENOTSUP, "neither a regular file nor a block device");
  const std::string empty = folder_.make_file("empty", 0);
  expect_refused({.driver = "file", .path = empty}, EINVAL, "file " + empty + ": it is empty");
  const std::string odd = folder_.make_file("odd", 5000);
  expect_refused({.driver = "file", .path = odd}, EINVAL,
                 "its size 5000 is not a multiple of the block size 512");
  expect_refused({.driver = "file", .path = path_, .size_bytes = 2 << 20}, EINVAL,
                 "size 2097152, but it has 1048576");
}

TEST_F(BlockFiles, MayBeUsedInPart) {
  const auto device = open_block_device({.driver = "file", .path = path_, .size_bytes = 1 << 19});
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ((*device)->properties().blocks, (1u << 19) / (*device)->properties().block_bytes);
}

TEST_F(BlockFiles, SayWhenTheyGoThroughThePageCache) {
  const TemporaryFolder folder;
  const MemoryFileSystem file_system(folder, "ramfs", 0);
  if (!file_system.missing().empty()) GTEST_SKIP() << file_system.missing();
  const auto buffered = open_block_device({.driver = "file", .path = folder.make_file("contents", 1 << 20)});
  ASSERT_TRUE(buffered.ok()) << buffered.error().message;
  EXPECT_NE((*buffered)->properties().description.find("through the page cache"), std::string::npos);
  EXPECT_EQ((*buffered)->properties().memory_alignment, 1u);
}

TEST_F(BlockFiles, AreNotOpenedWithoutPermission) {
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  ASSERT_EQ(::chmod(folder_.path().c_str(), 0755), 0);
  expect_refused_after([] { return ::setresuid(65534, 65534, 65534) == 0; },
                       {.driver = "file", .path = path_}, EACCES, "file " + path_ + ": Permission denied");
}

/// Two writers would destroy each other's file system, and a reader beside one would see inconsistent data.
TEST_F(BlockFiles, HaveOneWriterOrManyReaders) {
  const BlockSpecification to_write = {.driver = "file", .path = path_};
  BlockSpecification to_read = to_write;
  to_read.read_only = true;
  const std::string words = "file " + path_ + ": in use";
  {
    const auto writer = open_block_device(to_write);
    ASSERT_TRUE(writer.ok()) << writer.error().message;
    expect_refused(to_write, EBUSY, words);
    expect_refused(to_read, EBUSY, words);
  }
  {
    const auto reader = open_block_device(to_read);
    ASSERT_TRUE(reader.ok()) << reader.error().message;
    EXPECT_TRUE(open_block_device(to_read).ok());
    expect_refused(to_write, EBUSY, words);
  }
  EXPECT_TRUE(open_block_device(to_write).ok());
}

/// The kernel is not done with a process's io_uring when that has ended.
TEST_F(BlockFiles, AreOpenedWhenWhoHeldThemLetsGo) {
  const int held = ::open(path_.c_str(), O_RDWR);
  ASSERT_GE(held, 0);
  ASSERT_EQ(::flock(held, LOCK_EX), 0);
  std::thread holder([held] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ::close(held);
  });
  const auto device = open_block_device({.driver = "file", .path = path_});
  holder.join();
  EXPECT_TRUE(device.ok()) << device.error().message;
}

TEST_F(BlockFiles, ThatAreBlockDevicesAreClaimed) {
  const LoopDevice loop(path_, 512);
  if (!loop.missing().empty()) GTEST_SKIP() << loop.missing();
  const int mounted = ::open(loop.path().c_str(), O_RDWR | O_EXCL);  // as a mount would claim it
  ASSERT_GE(mounted, 0);
  expect_refused({.driver = "file", .path = loop.path()}, EBUSY,
                 "file " + loop.path() + ": in use (mounted, or claimed by another program)");
  ::close(mounted);
  const auto device = open_block_device({.driver = "file", .path = loop.path()});
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_LT(::open(loop.path().c_str(), O_RDWR | O_EXCL), 0);
}

TEST_F(BlockFiles, AreNotAccessedInLessThanTheyCan) {
  const LoopDevice loop(path_, 4096);
  if (!loop.missing().empty()) GTEST_SKIP() << loop.missing();
  expect_refused({.driver = "file", .path = loop.path(), .block_bytes = 512}, EINVAL,
                 "file " + loop.path() + ": block size 512, but it is accessed in 4096 bytes");
  const auto device = open_block_device({.driver = "file", .path = loop.path()});
  ASSERT_TRUE(device.ok()) << device.error().message;
  EXPECT_EQ((*device)->properties().block_bytes, 4096u);
  EXPECT_NE((*device)->properties().description.find("block device"), std::string::npos);
  EXPECT_NE((*device)->properties().description.find("direct"), std::string::npos);
}

TEST_F(BlockFiles, QueuesHaveADepth) {
  const auto device = open_block_device({.driver = "file", .path = path_});
  ASSERT_TRUE(device.ok()) << device.error().message;
  for (const uint32_t depth : {1u, 32768u}) EXPECT_TRUE((*device)->open_queue(depth, {}).ok()) << depth;
  for (const uint32_t depth : {0u, 32769u, ~0u}) {
    const auto queue = (*device)->open_queue(depth, {});
    ASSERT_FALSE(queue.ok());
    EXPECT_NE(queue.error().message.find("a queue of depth " + std::to_string(depth)), std::string::npos);
  }
}

TEST_F(BlockFiles, NeedIoUring) {
  const BlockSpecification specification = {.driver = "file", .path = path_};
  expect_refused_after([] { return refuse_call(SYS_io_uring_setup, EPERM); }, specification, EPERM,
                       "file " + path_ + ": io_uring: forbidden (kernel.io_uring_disabled is ");
  expect_refused_after([] { return refuse_call(SYS_io_uring_setup, ENOSYS); }, specification, ENOSYS,
                       "file " + path_ + ": io_uring: not there");
}

}  // namespace
}  // namespace uroce::testing
