#include "drivers/port/host/socket_path.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/ports/temporary_folder.h"

namespace uroce::testing {
namespace {

/// A folder for all and a home, as own_service_place() sees them.
class OwnServicePlace : public ::testing::Test {
 protected:
  OwnServicePlace() {
    mkdir(shared_.c_str(), 01777);
    mkdir(home_.c_str(), 0755);
  }

  void expect(const std::string& folder, const std::string& passed_over) const {
    const drivers::ServicePlace place = drivers::own_service_place(shared_, home_, geteuid());
    EXPECT_EQ(place.socket, folder + "/service.sock");
    EXPECT_EQ(place.passed_over, passed_over);
  }

  TemporaryFolder folder_;
  const std::string shared_ = folder_.path() + "/tmp";
  const std::string home_ = folder_.path() + "/home";
  const std::string usual_ = shared_ + "/uroce-" + std::to_string(geteuid());
  const std::string other_ = home_ + "/.uroce";
};

TEST_F(OwnServicePlace, IsInTheFolderForAllIfNobodyHasTakenTheName) {
  expect(usual_, "");
  ASSERT_EQ(mkdir(usual_.c_str(), 0700), 0);
  expect(usual_, "");
  // The usual one is the user's own: what another time was taken instead does not count.
  ASSERT_EQ(mkdir(other_.c_str(), 0700), 0);
  expect(usual_, "");
}

TEST_F(OwnServicePlace, IsAtHomeIfAnotherUserHasTakenTheName) {
  ASSERT_EQ(symlink(home_.c_str(), usual_.c_str()), 0);
  expect(other_, usual_);
  ASSERT_EQ(mkdir(other_.c_str(), 0700), 0);
  expect(other_, usual_);
  // Expect: a service that listens there is found although the other user has given the name back.
  ASSERT_EQ(unlink(usual_.c_str()), 0);
  expect(other_, "");
}

TEST_F(OwnServicePlace, AFolderThatOthersWriteIsAnothers) {
  ASSERT_EQ(mkdir(usual_.c_str(), 0700), 0);
  ASSERT_EQ(chmod(usual_.c_str(), 0777), 0);
  expect(other_, usual_);
  ASSERT_EQ(chmod(home_.c_str(), 0777), 0);
  expect(usual_, "");  // and is refused
}

TEST_F(OwnServicePlace, OwnersAreTold) {
  if (geteuid() != 0) GTEST_SKIP() << "takes the superuser";
  constexpr uid_t kStranger = 12345;
  ASSERT_EQ(mkdir(usual_.c_str(), 0700), 0);
  ASSERT_EQ(chown(usual_.c_str(), kStranger, kStranger), 0);
  expect(other_, usual_);
  ASSERT_EQ(chown(home_.c_str(), kStranger, kStranger), 0);
  expect(usual_, "");
}

}  // namespace
}  // namespace uroce::testing
