#include "mem/process/locked_memory.h"

#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <vector>

#include "mem/bus/bus_space.h"
#include "mem/keys/region_table.h"
#include "mem/regions/hugepage_arena.h"

namespace uroce::mem {
namespace {

constexpr uint64_t kPage = 4096;

/// In a child process without CAP_IPC_LOCK, whose limit is `limit` bytes: what `body` returns is its exit
/// status.
template <typename Body>
int exit_status_under_limit(rlim_t limit, Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
    std::array<__user_cap_data_struct, _LINUX_CAPABILITY_U32S_3> data{};
    const rlimit both{limit, limit};
    if (::syscall(SYS_capset, &header, data.data()) != 0 || ::setrlimit(RLIMIT_MEMLOCK, &both) != 0)
      _exit(99);
    _exit(body());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

const std::byte* address(uint64_t value) { return reinterpret_cast<const std::byte*>(value); }

TEST(LockedMemory, CountsWholePages) {
  LockedMemory account;
  const auto charged = [&](uint64_t at, uint64_t length) {
    EXPECT_TRUE(account.charge(address(at), length).ok());
    const uint64_t bytes = account.bytes();
    account.release(address(at), length);
    EXPECT_EQ(account.bytes(), 0u);
    return bytes;
  };
  EXPECT_EQ(charged(0x10000, 1), kPage);
  EXPECT_EQ(charged(0x10000, kPage), kPage);
  EXPECT_EQ(charged(0x10000, kPage + 1), 2 * kPage);
  EXPECT_EQ(charged(0x10FFF, 2), 2 * kPage);
}

TEST(LockedMemory, WithoutThePrivilegeTheLimitHolds) {
  EXPECT_EQ(exit_status_under_limit(4 * kPage,
                                    [] {
                                      LockedMemory account;
                                      if (!account.charge(address(0x10000), 3 * kPage).ok()) return 1;
                                      if (account.charge(address(0x90000), 2 * kPage).ok()) return 2;
                                      if (account.charge(address(0x90000), UINT64_MAX / 2).ok()) return 3;
                                      if (!account.charge(address(0x90000), kPage).ok()) return 4;
                                      account.release(address(0x10000), 3 * kPage);
                                      if (!account.charge(address(0x90000), 3 * kPage).ok()) return 5;
                                      return 0;
                                    }),
            0);
}

TEST(LockedMemory, WhatIgnoresTheLimitIsCounted) {
  EXPECT_EQ(exit_status_under_limit(4 * kPage,
                                    [] {
                                      LockedMemory account;
                                      const auto ignored = LockedMemory::Limit::kIgnored;
                                      if (!account.charge(address(0x10000), 9 * kPage, ignored).ok())
                                        return 1;
                                      if (account.bytes() != 9 * kPage) return 2;
                                      if (account.charge(address(0x90000), kPage).ok()) return 3;
                                      return 0;
                                    }),
            0);
}

TEST(LockedMemory, RegionsAreRefusedWithEnomemAndTheLimitInTheMessage) {
  EXPECT_EQ(exit_status_under_limit(16 * kPage,
                                    [] {
                                      RegionTable table({.entries_max = 64});
                                      std::vector<std::byte> memory(10 * kPage);
                                      const UserRegion region{.domain = {1},
                                                              .address = memory.data(),
                                                              .length = memory.size(),
                                                              .access = kLocalWrite};
                                      const Result<RegionKeys> first = table.register_user(region);
                                      if (!first.ok()) return 1;
                                      const Result<RegionKeys> second = table.register_user(region);
                                      if (second.ok() || second.error().code != ENOMEM) return 2;
                                      if (second.error().message.find("RLIMIT_MEMLOCK") == std::string::npos)
                                        return 3;
                                      if (!table.deregister(first->lkey).ok()) return 4;
                                      return table.register_user(region).ok() ? 0 : 5;
                                    }),
            0);
}

/// Old and new memory are held for a moment, as the kernel does it; what only changes its rights costs
/// nothing.
TEST(LockedMemory, ReregistrationNeedsRoomForBoth) {
  EXPECT_EQ(exit_status_under_limit(16 * kPage,
                                    [] {
                                      RegionTable table({.entries_max = 64});
                                      std::vector<std::byte> memory(20 * kPage);
                                      std::byte* first = memory.data();
                                      const auto region = table.register_user(
                                          {.domain = {1}, .address = first, .length = 9 * kPage});
                                      if (!region.ok()) return 1;
                                      const MemoryKey key = region->lkey;
                                      const auto change = [&](const RegionChange& wanted) {
                                        const Status status = table.reregister(key, wanted);
                                        return status.ok() ? 0 : status.error().code;
                                      };
                                      if (change({.place = RegionChange::Place{first, 8 * kPage}}) != ENOMEM)
                                        return 2;
                                      if (change({.access = kLocalWrite}) != 0) return 3;
                                      if (change({.place = RegionChange::Place{first, 4 * kPage}}) != 0)
                                        return 4;
                                      return change({.place = RegionChange::Place{first, 10 * kPage}});
                                    }),
            0);
}

/// Memory from the arena counts as what it is, registered memory: hugepages by their bytes, and what is
/// shared in steps of 2 MB. Unused chunks are not in the way of others.
TEST(LockedMemory, OfTheArena_ExpectWholeChunksCountedAndUnusedOnesGivenUp) {
  EXPECT_EQ(exit_status_under_limit(
                (5 << 20) + kPage,
                [] {
                  LockedMemory account;
                  BusSpace bus({});
                  RegionTable table({.entries_max = 64, .locked_memory = &account, .bus_space = &bus});
                  HugepageArena arena(table, {1});
                  const auto get = [&](uint64_t bytes, Access access, bool alone = false) {
                    const auto made = arena.allocate({.bytes = bytes, .access = access, .alone = alone});
                    if (!made && made.error().code != ENOMEM) _exit(98);
                    return made ? made->address : nullptr;
                  };
                  std::byte* const first = get(64, kLocalWrite);
                  if (account.bytes() != 2 << 20) return 1;
                  if (get(64, kLocalWrite) == nullptr || account.bytes() != 2 << 20) return 2;
                  std::byte* const other = get(64, kRemoteRead);
                  if (account.bytes() != 4 << 20) return 3;
                  if (get(64, kLocalWrite | kRemoteRead) != nullptr) return 4;
                  if (get(1 << 20, kLocalWrite, true) == nullptr || account.bytes() != 5 << 20) return 5;
                  if (get(2 * kPage, kLocalWrite, true) != nullptr) return 6;
                  if (first == nullptr || !arena.free(other).ok()) return 7;
                  if (account.bytes() != 5 << 20) return 8;  // one that is not used is kept
                  if (get(64, kLocalWrite | kRemoteRead) == nullptr || account.bytes() != 5 << 20) return 9;
                  return 0;
                }),
            0);
}

TEST(LockedMemory, ClosingATableGivesItsBytesBack) {
  LockedMemory account;
  std::vector<std::byte> memory(3 * kPage);
  {
    RegionTable table({.entries_max = 64, .locked_memory = &account});
    const UserRegion region{.domain = {1}, .address = memory.data(), .length = memory.size()};
    ASSERT_TRUE(table.register_user(region).ok());
    ASSERT_TRUE(table.register_user(region).ok());
    EXPECT_GE(account.bytes(), 6 * kPage);
  }
  EXPECT_EQ(account.bytes(), 0u);
}

}  // namespace
}  // namespace uroce::mem
