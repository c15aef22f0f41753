#include "service/listening_socket.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/support/packet.h"
#include "tests/unit/ports/temporary_folder.h"
#include "tests/unit/service/fake_program.h"

namespace uroce::testing {
namespace {

namespace fs = std::filesystem;
using service::ListeningSocket;

uint32_t mode_of(const std::string& path) {
  struct stat status {};
  return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
}

class ListeningSocketTest : public ::testing::Test {
 protected:
  [[nodiscard]] std::string error_of(const ListeningSocket::Options& options) const {
    const auto socket = ListeningSocket::open(options);
    return socket ? "" : socket.error().message;
  }
  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/own/service.sock";
};

TEST_F(ListeningSocketTest, ListensAndLeavesNothingBehind) {
  {
    const auto socket = ListeningSocket::open({.path = path_});
    ASSERT_TRUE(socket);
    EXPECT_EQ(mode_of(path_), 0600u);
    EXPECT_EQ(mode_of(folder_.path() + "/own"), 0700u);
    EXPECT_GE(FakeProgram(path_).socket(), 0);
  }
  EXPECT_TRUE(fs::is_empty(folder_.path() + "/own"));
}

TEST_F(ListeningSocketTest, OthersMayBeLetIn) {
  const mode_t before = umask(077);
  const auto socket = ListeningSocket::open({.path = path_, .mode = 0666});
  umask(before);
  ASSERT_TRUE(socket);
  EXPECT_EQ(mode_of(path_), 0666u);
}

TEST_F(ListeningSocketTest, OneServiceServesAPath) {
  const auto first = ListeningSocket::open({.path = path_});
  ASSERT_TRUE(first);
  EXPECT_EQ(error_of({.path = path_}),
            path_ + ": another service listens there (process " + std::to_string(getpid()) + ")");
  EXPECT_GE(FakeProgram(path_).socket(), 0);
}

TEST_F(ListeningSocketTest, WhatAKilledServiceLeftIsReplaced) {
  fs::create_directory(folder_.path() + "/own");
  std::ofstream(path_ + ".lock") << "1";
  const sockaddr_un address = unix_address(path_);
  const Descriptor stale(socket(AF_UNIX, SOCK_SEQPACKET, 0));
  ASSERT_EQ(bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  EXPECT_LT(FakeProgram(path_).socket(), 0);
  const auto socket = ListeningSocket::open({.path = path_});
  ASSERT_TRUE(socket) << socket.error().message;
  EXPECT_GE(FakeProgram(path_).socket(), 0);
}

TEST_F(ListeningSocketTest, WhatIsNoSocketStays) {
  fs::create_directory(folder_.path() + "/own");
  std::ofstream(path_) << "precious";
  EXPECT_EQ(error_of({.path = path_}), path_ + ": is there, and is no socket");
  EXPECT_EQ(fs::file_size(path_), 8u);
  EXPECT_FALSE(fs::exists(path_ + ".lock"));
}

TEST_F(ListeningSocketTest, FoldersOfOthersAreRefused) {
  const std::string own = folder_.path() + "/own";
  fs::create_directory(own);
  chmod(own.c_str(), 0777);
  EXPECT_EQ(error_of({.path = path_}), own + ": other users may write to the folder");
  chmod(own.c_str(), 01777);
  EXPECT_EQ(error_of({.path = path_}), "");
  EXPECT_NE(error_of({.path = folder_.path() + "/not/there/service.sock"}), "");
  EXPECT_NE(error_of({.path = std::string(200, 'x')}), "");
  EXPECT_NE(error_of({.path = ""}), "");
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can give a folder away";
  chmod(own.c_str(), 0755);
  ASSERT_EQ(chown(own.c_str(), 12345, 12345), 0);
  EXPECT_EQ(error_of({.path = path_}), own + ": the folder belongs to another user (12345)");
}

TEST_F(ListeningSocketTest, SystemdsSocketIsTakenOnce) {
  EXPECT_FALSE(ListeningSocket::inherited());
  setenv("LISTEN_PID", "1", 1);
  setenv("LISTEN_FDS", "1", 1);
  EXPECT_FALSE(ListeningSocket::inherited());
  setenv("LISTEN_PID", std::to_string(getpid()).c_str(), 1);
  setenv("LISTEN_FDS", "2", 1);
  auto two = ListeningSocket::inherited();
  ASSERT_TRUE(two);
  EXPECT_FALSE(*two);
  EXPECT_EQ(std::getenv("LISTEN_PID"), nullptr);
}

}  // namespace
}  // namespace uroce::testing
