#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <optional>

#include "tests/support/soon.h"
#include "tests/unit/service/as_stranger.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr uid_t kStranger = AsStranger::kUser;

class Users : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only the superuser can be another user";
  }
  /// A service that every user can connect to.
  static std::unique_ptr<RunningService> make(service::ServiceConfiguration configuration = {}) {
    auto service = std::make_unique<RunningService>(std::move(configuration), [] {
      return Result<service::Service::Configured>({.service = {}, .devices = one_device()});
    });
    const std::filesystem::path path(service->path());
    chmod(path.c_str(), 0666);
    chmod(path.parent_path().c_str(), 0755);
    chmod(path.parent_path().parent_path().c_str(), 0755);
    return service;
  }
  static std::unique_ptr<FakeProgram> stranger(const RunningService& service) {
    const AsStranger other;
    return std::make_unique<FakeProgram>(service.path());
  }
};

TEST_F(Users, OnlyThoseThatAreListedAttach) {
  const auto service = make({.users = std::vector<uid_t>{}});
  const auto program = stranger(*service);
  const Message refused = program->attach();
  EXPECT_EQ(refused.error, EACCES);
  EXPECT_EQ(host::text_of(refused.text), "user 12345 may not use this service (service.users)");
  EXPECT_TRUE(program->closed());
  EXPECT_EQ(stranger(*service)->ask(hello(MessageType::kReload)).error, EPERM);
  FakeProgram own(service->path());
  EXPECT_EQ(own.attach().type, MessageType::kAttached);
}

TEST_F(Users, AListedOneAttaches) {
  const auto service = make({.users = std::vector<uid_t>{kStranger}});
  EXPECT_EQ(stranger(*service)->attach().type, MessageType::kAttached);
}

TEST_F(Users, TheirProgramsShareNoMemory) {
  const auto service = make();
  const auto program = stranger(*service);
  ASSERT_EQ(program->attach().type, MessageType::kAttached);
  FakeProgram own(service->path());
  own.attach();
  EXPECT_EQ(own.ask({.type = MessageType::kIntroduce, .number = program->number(), .channel = 1}).error,
            EPERM);
  EXPECT_EQ(program->ask({.type = MessageType::kIntroduce, .number = own.number(), .channel = 1}).error,
            EPERM);
  // Their frames go by way of the service.
  const Bytes frame = rc_frame(to_self(), {own.number() + 7});
  program->memory().send(frame);
  std::optional<ProgramMemory::Received> received;
  EXPECT_TRUE(soon([&] { return (received = own.memory().receive()).has_value(); }));
  ASSERT_TRUE(received);
  EXPECT_EQ(received->bytes, frame);
}

}  // namespace
}  // namespace uroce::testing
