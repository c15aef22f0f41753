// Properties; and what enabling, reset and shutdown do to queues.
#include "nvmf/subsystem/registers.h"

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

constexpr uint32_t kReady = 1, kFatal = 2, kShutdownDone = 2u << 2, kShutdownGoesOn = 1u << 2;
constexpr uint32_t kShutdown = 1u << 14;

class Properties : public Disks {
 protected:
  Host host{target};
};

TEST_F(Properties, Values) {
  const uint64_t capabilities = host.admin.run(command::get_property(Property::kCapabilities, true)).result;
  EXPECT_EQ(capabilities & 0xFFFF, 127u);    // MQES, from 0
  EXPECT_EQ(capabilities >> 16 & 1, 1u);     // CQR
  EXPECT_GT(capabilities >> 24 & 0xFF, 0u);  // TO
  EXPECT_EQ(capabilities >> 37 & 0xFF, 1u);  // CSS: NVM
  EXPECT_EQ(capabilities >> 48, 0u);         // pages of 4096
  EXPECT_EQ(host.admin.run(command::get_property(Property::kVersion)).result, 0x00010400u);
  EXPECT_EQ(host.admin.run(command::get_property(Property::kConfiguration)).result, kEnabled);
  EXPECT_EQ(host.status(), kReady);
}

TEST_F(Properties, WrongOnes) {
  expect_refused(host.admin.run(command::get_property(Property::kCapabilities)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::get_property(Property::kVersion, true)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::get_property(static_cast<Property>(0x30))),
                 StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::set_property(Property::kVersion, 0)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::set_property(Property::kStatus, 0)), StatusCode::kInvalidField);
  Command sized = command::set_property(Property::kConfiguration, 0);
  sized.dword10 = 1;
  expect_refused(host.admin.run(sized), StatusCode::kInvalidField);
  sized = command::get_property(Property::kStatus);
  sized.dword10 = 5;
  expect_refused(host.admin.run(sized), StatusCode::kInvalidField);
  expect_refused(host.io().run(command::get_property(Property::kStatus)), StatusCode::kInvalidField);
  EXPECT_EQ(host.status(), kReady);
}

TEST_F(Properties, OnlyFabricsCommandsBeforeReady) {
  host.set_configuration(0);
  expect_refused(host.admin.run(command::identify(IdentifyCode::kController)),
                 StatusCode::kCommandSequenceError);
  expect_refused(host.admin.run(command::make(command::kKeepAlive)), StatusCode::kCommandSequenceError);
  host.set_configuration(kEnabled);
  EXPECT_TRUE(host.admin.run(command::identify(IdentifyCode::kController)).ok());
}

TEST_F(Properties, WrongConfigurationIsFatalUntilReset) {
  for (const uint32_t wrong :
       {1u, kEnabled | 1u << 4, kEnabled | 1u << 7, kEnabled | 1u << 11, 1 | 5u << 16 | 4u << 20}) {
    host.set_configuration(0);
    host.set_configuration(wrong);
    EXPECT_EQ(host.status(), kFatal) << wrong;
    EXPECT_EQ(host.admin.run(command::make(command::kKeepAlive)).code, StatusCode::kCommandSequenceError);
  }
  host.set_configuration(0);
  EXPECT_EQ(host.status(), 0u);
  host.set_configuration(kEnabled);
  EXPECT_EQ(host.status(), kReady);
}

TEST_F(Properties, ResetWaitsForQueues) {
  HostQueue& io = host.io();
  host.set_configuration(0);
  EXPECT_TRUE(io.queue().ending());
  EXPECT_FALSE(host.admin.queue().ending());
  EXPECT_EQ(host.status(), kReady);
  // Not before the reset is complete.
  const Answer early = host.admin.run(command::set_property(Property::kConfiguration, kEnabled));
  EXPECT_EQ(early.code, StatusCode::kCommandSequenceError);
  EXPECT_FALSE(early.do_not_retry);
  EXPECT_TRUE(io.drain());
  EXPECT_EQ(host.status(), 0u);
  host.set_configuration(kEnabled);
  EXPECT_FALSE(host.io().queue().ending());
}

TEST_F(Properties, ResetForgetsWhatWasSet) {
  ASSERT_TRUE(host.admin.run(command::set_features(0x0B, 1u << 8)).ok());
  ASSERT_TRUE(host.admin.run(command::set_features(0x06, 0)).ok());
  ASSERT_TRUE(host.admin.run(command::set_features(0x05, 7)).ok());
  const uint16_t event = host.admin.send(command::make(command::kAsyncEventRequest));
  host.set_configuration(0);
  EXPECT_EQ(host.admin.answer(event)->code, StatusCode::kAbortRequested);
  host.set_configuration(kEnabled);
  EXPECT_EQ(host.admin.run(command::get_features(0x0B)).result, 0u);
  EXPECT_EQ(host.admin.run(command::get_features(0x06)).result, 1u);
  EXPECT_EQ(host.admin.run(command::get_features(0x05)).result, 0u);
}

TEST_F(Properties, ShutdownWaitsForQueues) {
  HostQueue& io = host.io();
  host.set_configuration(kEnabled | kShutdown);
  EXPECT_TRUE(io.queue().ending());
  EXPECT_EQ(host.status(), kReady | kShutdownGoesOn);
  EXPECT_TRUE(io.drain());
  EXPECT_EQ(host.status(), kReady | kShutdownDone);
  EXPECT_FALSE(host.admin.queue().ending());
  host.set_configuration(0);
  EXPECT_EQ(host.status(), 0u);
  host.set_configuration(kEnabled);
  EXPECT_EQ(host.status(), kReady);
}

TEST_F(Properties, ControllerThatStaysDisabledIsGivenUp) {
  host.admin.run(command::set_property(Property::kConfiguration, 0));
  host.admin.now = host.admin.now + seconds(119);
  host.admin.poll();
  EXPECT_FALSE(host.admin.queue().ending());
  host.admin.now = host.admin.now + seconds(2);
  host.admin.poll();
  EXPECT_TRUE(host.admin.queue().ending());
}

TEST(RegistersAlone, DiscoveryControllersDoNotLookAtEntrySizes) {
  Registers registers(16, true);
  EXPECT_EQ(registers.set_configuration(1), Registers::Change::kEnabled);
  EXPECT_TRUE(registers.ready());
}

}  // namespace
}  // namespace uroce::nvmf
