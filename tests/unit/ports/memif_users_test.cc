// Which processes a memif talks to: those of its own user. The driver trusts the other end with this
// process's memory.

#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>

#include "drivers/registry.h"
#include "eal.h"
#include "temporary_folder.h"

namespace uroce::testing {
namespace {

constexpr uid_t kNobody = 65534;

struct Address {
  sockaddr_un value{.sun_family = AF_UNIX, .sun_path = {}};
  socklen_t length = 0;
};

Address address_of(const std::string& name, bool abstract) {
  Address address;
  name.copy(address.value.sun_path + (abstract ? 1 : 0), sizeof address.value.sun_path - 2);
  address.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name.size() + 1);
  return address;
}

/// Exit status of a child that does this as another user, or as this one.
int status_of(uid_t user, const std::function<int()>& work) {
  const pid_t child = fork();
  if (child == 0) {
    if (user != geteuid() && (setgroups(0, nullptr) != 0 || setgid(user) != 0 || setuid(user) != 0))
      _exit(99);
    _exit(work());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

enum Visit { kCut, kGreeted, kDenied, kOther };

/// What becomes of a process that connects there and waits for the first word.
Visit visit(const std::string& name, bool abstract) {
  const Address address = address_of(name, abstract);
  const int visitor = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  constexpr timeval kPatience{.tv_sec = 20, .tv_usec = 0};
  setsockopt(visitor, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  if (connect(visitor, reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0)
    return errno == EACCES ? kDenied : kOther;
  std::array<char, 256> words{};
  const ssize_t length = recv(visitor, words.data(), words.size(), 0);
  close(visitor);
  return length == 0 || (length < 0 && errno == ECONNRESET) ? kCut : length > 0 ? kGreeted : kOther;
}

class MemifUsers : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_EQ(start_eal(), "");
    std::filesystem::permissions(folder_.path(), std::filesystem::perms::all);
  }

  [[nodiscard]] std::string socket_file() const { return folder_.path() + "/memif.sock"; }
  [[nodiscard]] std::string server() const { return "net_memif0,role=server,socket=" + socket_file(); }
  [[nodiscard]] std::string abstract_name() const { return folder_.path().substr(1); }
  [[nodiscard]] std::string abstract_server() const {
    return "net_memif0,role=server,socket-abstract=yes,socket=" + abstract_name();
  }

  TemporaryFolder folder_;
};

TEST_F(MemifUsers, TheSocketIsAFileOfItsOwnerOnly) {
  const mode_t before = umask(0);
  const auto port = drivers::open_port({.devargs = server()});
  umask(before);
  ASSERT_TRUE(port) << port.error().message;
  struct stat status {};
  ASSERT_EQ(stat(socket_file().c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600u);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_.path()), {}), 1)
      << "and nothing beside it";
  EXPECT_EQ(status_of(geteuid(), [&] { return visit(socket_file(), false); }), kGreeted);
}

TEST_F(MemifUsers, AnotherUserIsNotLetIn) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can become another one";
  const auto port = drivers::open_port({.devargs = server()});
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_EQ(status_of(kNobody, [&] { return visit(socket_file(), false); }), kDenied);
  std::filesystem::permissions(socket_file(), std::filesystem::perms::all);
  EXPECT_EQ(status_of(kNobody, [&] { return visit(socket_file(), false); }), kCut);
  EXPECT_EQ(status_of(geteuid(), [&] { return visit(socket_file(), false); }), kGreeted);
}

TEST_F(MemifUsers, AnotherUserIsNotLetInByAnAbstractNameEither) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can become another one";
  const auto port = drivers::open_port({.devargs = abstract_server()});
  ASSERT_TRUE(port) << port.error().message;
  EXPECT_EQ(status_of(kNobody, [&] { return visit(abstract_name(), true); }), kCut);
  EXPECT_EQ(status_of(geteuid(), [&] { return visit(abstract_name(), true); }), kGreeted);
}

std::set<std::string> own_sockets() {
  std::set<std::string> inodes;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd", error)) {
    const std::string target = std::filesystem::read_symlink(entry.path(), error).string();
    if (target.starts_with("socket:[")) inodes.insert(target.substr(8, target.size() - 9));
  }
  return inodes;
}

/// A driver's socket that could be named would be a way past the relay, which checks whose process it is.
TEST_F(MemifUsers, TheDriversOwnSocketCannotBeNamed) {
  const auto port = drivers::open_port({.devargs = abstract_server()});
  ASSERT_TRUE(port) << port.error().message;
  const std::set<std::string> own = own_sockets();
  std::ifstream sockets("/proc/net/unix");
  std::string line;
  std::getline(sockets, line);
  for (std::string count, protocol, flags, type, state, inode, path; std::getline(sockets, line);) {
    std::istringstream words(line);
    std::string number;
    words >> number >> count >> protocol >> flags >> type >> state >> inode;
    path.clear();
    words >> path;
    constexpr const char* kListens = "00010000";
    if (flags != kListens || !own.contains(inode)) continue;
    if (path.starts_with("/proc/self/fd/")) {
      EXPECT_FALSE(std::filesystem::exists(path)) << path;
    } else {
      EXPECT_EQ(path, "@" + abstract_name());
    }
  }
}

/// Says the first word, as a server does, and returns whether it was answered.
Visit serve_one(const std::string& name) {
  const Address address = address_of(name, false);
  const int listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address.value), address.length) != 0 ||
      listen(listener, 1) != 0)
    return kOther;
  const int client = accept(listener, nullptr, nullptr);
  std::array<char, 128> words{};
  words[0] = 2;  // hello; then the versions, numbers of regions and rings that are possible
  (void)send(client, words.data(), words.size(), MSG_NOSIGNAL);
  const ssize_t length = recv(client, words.data(), words.size(), 0);
  return length <= 0 ? kCut : kGreeted;
}

TEST_F(MemifUsers, AServerOfAnotherUserIsNotSpokenTo) {
  if (geteuid() != 0) GTEST_SKIP() << "only the superuser can become another one";
  const auto client = drivers::open_port({.devargs = "net_memif1,role=client,socket=" + socket_file()});
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_EQ(status_of(kNobody, [&] { return serve_one(socket_file()); }), kCut);
  std::filesystem::remove(socket_file());
  EXPECT_EQ(status_of(geteuid(), [&] { return serve_one(socket_file()); }), kGreeted);
}

}  // namespace
}  // namespace uroce::testing
