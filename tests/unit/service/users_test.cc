#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

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

TEST_F(Users, OthersThanThoseThatAreListedSeeNothing) {
  const auto service = make({.users = std::vector<uid_t>{}});
  FakeProgram own(service->path());
  own.attach();
  const auto program = stranger(*service);
  for (const MessageType type : {MessageType::kStatus, MessageType::kFaultList})
    EXPECT_EQ(program->ask(hello(type)).error, EACCES);
  Message question = hello(MessageType::kWhose);
  question.address = kDeviceAddress;
  question.number = own.number();
  EXPECT_EQ(program->ask(question).error, EACCES);
}

TEST_F(Users, EachSeesItsOwnProgramsAndHowManyOthersThereAre) {
  const auto service = make();
  FakeProgram own(service->path());
  own.attach();
  const auto program = stranger(*service);
  program->attach();
  const auto client = stranger(*service);
  const auto shown = nlohmann::json::parse(client->status())["devices"][0];
  ASSERT_EQ(shown["programs"].size(), 1u);
  EXPECT_EQ(shown["programs"][0]["uid"], kStranger);
  EXPECT_EQ(shown["other_programs"], 1);
  const auto all = nlohmann::json::parse(FakeProgram(service->path()).status())["devices"][0];
  EXPECT_EQ(all["programs"].size(), 2u);
  EXPECT_EQ(all["other_programs"], 0);
  // A number of another user's program: whose it is, and nothing of its block.
  Message question = hello(MessageType::kWhose);
  question.address = kDeviceAddress;
  question.number = own.number() + 5;
  const Message owner = client->ask(question);
  EXPECT_EQ(owner.id, 0u);
  EXPECT_EQ(owner.number, question.number);
  EXPECT_EQ(owner.count, 1u);
}

TEST_F(Users, AllPlacesOfConnectionsAreTaken_ExpectTheOldestOfOneUserToGiveWay) {
  // Each connection has a socket and a memory here, and a descriptor of the service's.
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 2048)
    GTEST_SKIP() << "RLIMIT_NOFILE is " << limit.rlim_max << ", and 2,048 are wanted";
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  const auto service = make();
  std::vector<std::unique_ptr<FakeProgram>> silent;
  for (uid_t user = 1; silent.size() < 512; ++user) {
    const AsStranger other(user);
    for (int i = 0; i < 64; ++i) silent.push_back(std::make_unique<FakeProgram>(service->path()));
  }
  const auto program = stranger(*service);
  EXPECT_EQ(program->attach().type, MessageType::kAttached);
  const auto ended = silent.front()->receive();
  ASSERT_TRUE(ended);
  EXPECT_EQ(ended->message.error, EAGAIN);
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
