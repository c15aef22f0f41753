#include "host/process_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <string>

namespace uroce::host {
namespace {

constexpr std::array<std::string_view, 2> kNames{"uroce-test-a", "uroce-test-b"};

Descriptor memory(const char* name) { return Descriptor(memfd_create(name, MFD_CLOEXEC)); }

TEST(ProcessMemory, SeveralDescriptorsOfOneMemory_ExpectItOnce) {
  const Descriptor a = memory("uroce-test-a");
  const Descriptor b = memory("uroce-test-b");
  const Descriptor other = memory("uroce-test");
  std::vector<Descriptor> again;
  for (int i = 0; i < 900; ++i) again.emplace_back(dup(a.get()));
  auto found = memories_of(getpid(), kNames);
  ASSERT_EQ(found.size(), 2u);
  std::ranges::sort(found, {}, &FoundMemory::name);
  EXPECT_EQ(found[0].name, "uroce-test-a");
  EXPECT_EQ(found[1].name, "uroce-test-b");
  EXPECT_NE(found[0].inode, found[1].inode);
  const auto opened = open_memory(getpid(), found[0].descriptor, found[0].name, O_RDWR);
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->inode, found[0].inode);
  EXPECT_EQ(opened->owner, geteuid());
}

TEST(ProcessMemory, MoreMemoriesThanThereCanBe_ExpectSoMany) {
  std::vector<Descriptor> all;
  for (size_t i = 0; i < 4 * kMemoriesOfProcessMax; ++i) all.push_back(memory("uroce-test-a"));
  EXPECT_EQ(memories_of(getpid(), kNames).size(), kMemoriesOfProcessMax);
}

TEST(ProcessMemory, ExchangedBehindItsName_ExpectNotToOpenIt) {
  const Descriptor a = memory("uroce-test-a");
  const auto found = memories_of(getpid(), kNames);
  ASSERT_EQ(found.size(), 1u);
  // What it may be exchanged for: another memory, a file, a pipe and a folder, none of which is opened.
  std::array<int, 2> pipe_ends{};
  ASSERT_EQ(pipe(pipe_ends.data()), 0);
  const Descriptor read_end(pipe_ends[0]);
  const Descriptor write_end(pipe_ends[1]);
  const Descriptor other = memory("uroce-test-b");
  const Descriptor folder(open("/", O_RDONLY | O_CLOEXEC));
  for (const int to : {read_end.get(), other.get(), folder.get()}) {
    ASSERT_EQ(dup2(to, a.get()), a.get());
    EXPECT_EQ(open_memory(getpid(), a.get(), "uroce-test-a", O_RDWR).error().code, ENOENT);
  }
}

TEST(ProcessMemory, FileWithTheNameOfAMemory_ExpectNotToOpenIt) {
  // As a file of another file system would be called, when it is deleted.
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser writes to the root folder";
  const Descriptor file(open("/memfd:uroce-test-a", O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!file.ok()) GTEST_SKIP() << "the root folder cannot be written";
  unlink("/memfd:uroce-test-a");
  EXPECT_EQ(open_memory(getpid(), file.get(), "uroce-test-a", O_RDWR).error().code, ENOENT);
}

TEST(ProcessMemory, Leased_ExpectNoWait) {
  Descriptor written = memory("uroce-test-a");
  const Descriptor a(open(("/proc/self/fd/" + std::to_string(written.get())).c_str(), O_RDONLY | O_CLOEXEC));
  written = Descriptor();
  signal(SIGIO, SIG_IGN);  // tells the holder of a lease
  ASSERT_EQ(fcntl(a.get(), F_SETLEASE, F_RDLCK), 0) << "a lease makes others wait for 45 s";
  EXPECT_EQ(open_memory(getpid(), a.get(), "uroce-test-a", O_RDWR).error().code, EAGAIN);
}

TEST(ProcessMemory, WhatIsNotThere_ExpectAnError) {
  EXPECT_EQ(open_memory(getpid(), 1'000'000, "uroce-test-a", O_RDWR).error().code, ENOENT);
  EXPECT_EQ(open_memory(getpid(), -1, "uroce-test-a", O_RDWR).error().code, ENOENT);
  EXPECT_TRUE(memories_of(0x7FFFFFFF, kNames).empty());
}

TEST(ProcessMemory, InTurns_ExpectThisProcessOnce) {
  const auto all = processes_in_turns();
  EXPECT_EQ(std::ranges::count(all, getpid()), 1);
}

}  // namespace
}  // namespace uroce::host
