// Files that a configuration may be replaced by, and that no reader may fall over.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <new>

#include "engine/configuration/configuration.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::MessageType;

constexpr size_t kMegabyte = 1 << 20;

std::string repeated(std::string_view part, size_t bytes) {
  std::string text;
  while (text.size() < bytes) text += part;
  return text;
}

/// A configuration that is a file of the tests' folder, and a service that reads it again.
class FatalFiles : public ::testing::Test {
 protected:
  FatalFiles() { ::unlink(path_.c_str()); }

  void write(const std::string& text) { std::ofstream(path_, std::ios::binary) << text; }
  void link(const char* to) { ASSERT_EQ(symlink(to, path_.c_str()), 0); }

  /// What each reader says of the file: the same of both. The service says it, and goes on as before.
  void expect_refused(int code, std::string_view what) {
    const auto devices = engine::read_configuration(path_);
    const auto service = service::read_service_configuration(path_);
    ASSERT_FALSE(devices);
    ASSERT_FALSE(service);
    EXPECT_EQ(devices.error().message, service.error().message);
    EXPECT_EQ(devices.error().code, code) << devices.error().message;
    EXPECT_NE(devices.error().message.find(what), std::string::npos) << devices.error().message;
    EXPECT_LT(devices.error().message.size(), 300u);
    RunningService running({}, [this]() -> Result<service::Service::Configured> {
      auto read = engine::read_configuration(path_);
      if (!read) return read.error();
      return service::Service::Configured{.service = {}, .devices = std::move(*read)};
    });
    FakeProgram program(running.path());
    EXPECT_EQ(program.attach().type, MessageType::kAttached);
    FakeProgram visitor(running.path());
    EXPECT_EQ(visitor.ask(hello(MessageType::kReload)).error, code);
    EXPECT_EQ(program.bind(1, 7471).error, 0);
  }

  TemporaryFolder folder_;
  const std::string path_ = folder_.path() + "/file.toml";
};

TEST_F(FatalFiles, AFileThatCanBeOpenedAndNotRead) {
  link("/proc/self/mem");
  expect_refused(EIO, "/file.toml: Input/output error");
}

TEST_F(FatalFiles, ADeviceWithoutAnEnd) {
  link("/dev/zero");
  expect_refused(EINVAL, "/file.toml: is no regular file");
}

TEST_F(FatalFiles, APipeThatNobodyWrites) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  expect_refused(EINVAL, "/file.toml: is no regular file");
}

TEST_F(FatalFiles, AFolder) {
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  expect_refused(EISDIR, "/file.toml: Is a directory");
}

TEST_F(FatalFiles, ALongFile) {
  write(repeated("# a line\n", kMegabyte + 1));
  expect_refused(EFBIG, "/file.toml: has more than 1048576 bytes");
}

TEST_F(FatalFiles, AKeyOfAMillionParts) {
  write("\n" + repeated("a.", kMegabyte - 16) + "a = 1\n");
  expect_refused(EINVAL, "/file.toml:2: keys of more than 16 parts");
}

TEST_F(FatalFiles, ATableOfAMillionParts) {
  write("[" + repeated("a . ", kMegabyte - 16) + "a]\n");
  expect_refused(EINVAL, "/file.toml:1: keys of more than 16 parts");
}

TEST_F(FatalFiles, KeysInQuotesOfAMillionParts) {
  write(repeated("\"\".'x'.", kMegabyte - 16) + "a = 1\n");
  expect_refused(EINVAL, "/file.toml:1: keys of more than 16 parts");
}

TEST_F(FatalFiles, ListsInAMillionLists) {
  write("a = " + repeated("[\n", kMegabyte - 16));
  expect_refused(EINVAL, "brackets more than 32 deep");
}

TEST_F(FatalFiles, TablesInTables) {
  write("a = " + repeated("{a.b=", kMegabyte - 16));
  expect_refused(EINVAL, "brackets more than 32 deep");
}

TEST_F(FatalFiles, WhatIsDeepInAStringOrCommentIsNot) {
  const std::string deep = repeated("[{", 100) + repeated("a.", 100);
  const auto read =
      engine::parse_configuration("# it's [[[" + deep + "\n[[device]]\nname = \"a\"  # \"" + deep +
                                      "\naddresses = [\"192.0.2.1/24\", '198.51.100.1/24']\n",
                                  "f");
  EXPECT_TRUE(read) << read.error().message;
  for (const char* quotes : {"\"", "'", "\"\"\"", "'''"}) {
    const auto refused = engine::parse_configuration("\nnothing = " + (quotes + deep + quotes) + "\n", "f");
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().message, "f:2: nothing: unknown table or key");
  }
  const auto several =
      engine::parse_configuration("a = \"\"\"\n\"" + deep + "\n" + deep + "\\\"\"\"\"\nb = 1\n", "f");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().message, "f:1: a: unknown table or key");
}

TEST(Reload, WhateverIsThrownIsAnAnswer) {
  RunningService running({}, []() -> Result<service::Service::Configured> { throw std::bad_alloc(); });
  FakeProgram visitor(running.path());
  const host::Message answer = visitor.ask(hello(MessageType::kReload));
  EXPECT_EQ(answer.error, ENOMEM);
  EXPECT_NE(host::text_of(answer.text).find("the configuration cannot be read again"),
            std::string_view::npos);
  EXPECT_EQ(visitor.ask(hello(MessageType::kList)).error, 0);
}

}  // namespace
}  // namespace uroce::testing
