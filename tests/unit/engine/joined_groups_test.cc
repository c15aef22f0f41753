// Which multicast groups the network of a device knows of.
#include "engine/device/joined_groups.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <map>
#include <set>

namespace uroce::engine {
namespace {

constexpr Gid kGroup = Gid::from_ipv4({239, 1, 2, 3});
constexpr Gid kOther = Gid::from_ipv4({239, 1, 2, 4});

class JoinedGroupsTest : public ::testing::Test {
 protected:
  std::set<Gid> members;      // groups with a queue pair
  std::map<Gid, int> joined;  // by the network
  int refusal = 0;
  JoinedGroups groups{{.join =
                           [this](const Gid& group) {
                             if (refusal == 0) ++joined[group];
                             return refusal;
                           },
                       .leave = [this](const Gid& group) { --joined[group]; }},
                      [this](const Gid& group) { return members.contains(group); }};
};

TEST_F(JoinedGroupsTest, QueuePairsAndOtherUsers_ExpectItJoinedOnceAndLeftWithTheLast) {
  members = {kGroup};
  EXPECT_EQ(groups.join(kGroup), 0);
  EXPECT_EQ(groups.hold(kGroup), 0);
  EXPECT_EQ(groups.hold(kGroup), 0);
  EXPECT_EQ(joined[kGroup], 1);
  members.clear();
  groups.leave_unused();
  groups.release(kGroup);
  EXPECT_EQ(joined[kGroup], 1);
  groups.release(kGroup);
  EXPECT_EQ(joined[kGroup], 0);
}

TEST_F(JoinedGroupsTest, ReleaseOfOne_ExpectTheOthersJoined) {
  EXPECT_EQ(groups.hold(kGroup), 0);
  EXPECT_EQ(groups.hold(kOther), 0);
  groups.release(kGroup);
  groups.release(kGroup);
  EXPECT_EQ(joined[kGroup], 0);
  EXPECT_EQ(joined[kOther], 1);
}

TEST_F(JoinedGroupsTest, NetworkThatRefuses_ExpectItsErrorAndNothingHeld) {
  refusal = ENOBUFS;
  EXPECT_EQ(groups.hold(kGroup), ENOBUFS);
  members = {kOther};
  EXPECT_EQ(groups.join(kOther), ENOBUFS);
  refusal = 0;
  groups.leave_unused();
  EXPECT_EQ(joined[kGroup], 0);
  EXPECT_EQ(groups.hold(kGroup), 0);
  EXPECT_EQ(joined[kGroup], 1);
}

TEST_F(JoinedGroupsTest, MoreGroupsThanThereMayBe_ExpectTheNextRefusedUntilOneIsLeft) {
  const auto group = [](size_t n) {
    return Gid::from_ipv4({239, 2, static_cast<uint8_t>(n >> 8), static_cast<uint8_t>(n)});
  };
  for (size_t n = 0; n < JoinedGroups::kMax; ++n) ASSERT_EQ(groups.hold(group(n)), 0);
  EXPECT_EQ(groups.hold(kGroup), ENOMEM);
  EXPECT_EQ(groups.hold(group(1)), 0);
  groups.release(group(0));
  EXPECT_EQ(groups.hold(kGroup), 0);
}

TEST_F(JoinedGroupsTest, MemberThatLeftMeanwhile_ExpectNothingJoined) {
  EXPECT_EQ(groups.join(kGroup), 0);
  EXPECT_EQ(joined[kGroup], 0);
}

}  // namespace
}  // namespace uroce::engine
