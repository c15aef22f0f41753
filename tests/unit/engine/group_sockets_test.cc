// The kernel's memberships in multicast groups, on the loopback interface.
#include "engine/platform/group_sockets.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>

namespace uroce::engine {
namespace {

/// 239.255.0.`n`, as /proc/net/igmp has it, and ff0e::7:`n`.
Gid ipv4(uint8_t n) { return Gid::from_ipv4({239, 255, 0, n}); }
Gid ipv6(uint8_t n) {
  Gid gid;
  gid.bytes = {0xFF, 0x0E, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0, n};
  return gid;
}

size_t lines_with(const char* file, const std::string& text) {
  std::ifstream lines(file);
  size_t count = 0;
  for (std::string line; std::getline(lines, line);) count += line.find(text) != std::string::npos ? 1u : 0u;
  return count;
}
size_t ipv4_memberships() { return lines_with("/proc/net/igmp", "00FFEF"); }
size_t ipv6_memberships() { return lines_with("/proc/net/igmp6", "ff0e00000000000000000000000700"); }

size_t descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(all), end(all)));
}

class GroupSocketsTest : public ::testing::Test {
 protected:
  std::optional<GroupSockets> groups{std::in_place, if_nametoindex("lo")};
  const size_t descriptors_before = descriptors();
};

TEST_F(GroupSocketsTest, ManyGroupsOfBothFamilies_ExpectAllOfThemJoinedAndLeft) {
  constexpr uint8_t kGroups = 50;
  for (uint8_t n = 1; n <= kGroups; ++n) {
    ASSERT_EQ(groups->join(ipv4(n)), 0);
    ASSERT_EQ(groups->join(ipv6(n)), 0);
  }
  EXPECT_EQ(ipv4_memberships(), kGroups);
  EXPECT_EQ(ipv6_memberships(), kGroups);
  EXPECT_LT(descriptors(), descriptors_before + kGroups / 2);
  groups->leave(ipv4(7));
  groups->leave(ipv4(7));
  EXPECT_EQ(ipv4_memberships(), kGroups - 1u);
  for (uint8_t n = 1; n <= kGroups; ++n) {
    groups->leave(ipv4(n));
    groups->leave(ipv6(n));
  }
  EXPECT_EQ(ipv4_memberships() + ipv6_memberships(), 0u);
  EXPECT_EQ(descriptors(), descriptors_before);
}

TEST_F(GroupSocketsTest, EndOfTheObject_ExpectNoMembership) {
  ASSERT_EQ(groups->join(ipv4(1)), 0);
  groups.reset();
  EXPECT_EQ(ipv4_memberships(), 0u);
}

TEST_F(GroupSocketsTest, InterfaceThatIsNotThere_ExpectTheErrorAndNoDescriptor) {
  GroupSockets elsewhere(0x7FFF'FFFF);
  EXPECT_NE(elsewhere.join(ipv4(1)), 0);
  EXPECT_NE(elsewhere.join(ipv6(1)), 0);
  EXPECT_EQ(descriptors(), descriptors_before);
}

TEST_F(GroupSocketsTest, ForkedChildThatLives_ExpectTheMembershipToEndWithUs) {
  ASSERT_EQ(groups->join(ipv4(1)), 0);
  int wait_for_end[2];
  int ready[2];
  ASSERT_EQ(pipe(wait_for_end), 0);
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    close(wait_for_end[1]);
    char byte = 0;
    const bool done = write(ready[1], &byte, 1) == 1 && read(wait_for_end[0], &byte, 1) == 0;
    _exit(done ? 0 : 1);
  }
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  groups.reset();
  EXPECT_EQ(ipv4_memberships(), 0u);
  close(wait_for_end[1]);
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int end : {wait_for_end[0], ready[0], ready[1]}) close(end);
}

TEST_F(GroupSocketsTest, ProgramThatGaveADescriptorToSomethingElse_ExpectThatLeftAlone) {
  const int probe = open("/dev/null", O_RDONLY | O_CLOEXEC);
  close(probe);
  ASSERT_EQ(groups->join(ipv4(1)), 0);  // has the lowest number that is free
  const int file = open("/dev/zero", O_RDONLY | O_CLOEXEC);
  ASSERT_EQ(dup3(file, probe, O_CLOEXEC), probe);
  close(file);
  ASSERT_EQ(groups->join(ipv4(2)), 0);
  groups->leave(ipv4(1));
  groups.reset();
  char byte = 1;
  EXPECT_EQ(read(probe, &byte, 1), 1);
  EXPECT_EQ(byte, 0);
  close(probe);
}

}  // namespace
}  // namespace uroce::engine
