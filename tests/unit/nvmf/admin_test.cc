// Commands of an admin queue that have no page: features, events, keep alive, abort.
#include <array>

#include "disks.h"
#include "nvmf/subsystem/controller.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

class Admin : public Disks {
 protected:
  uint16_t ask_for_event() { return host.admin.send(command::make(command::kAsyncEventRequest)); }
  void wait_for(Duration time) {
    host.admin.now = host.admin.now + time;
    for (const Answer& answer : host.admin.poll()) ADD_FAILURE() << "an answer to " << answer.cid;
  }

  std::shared_ptr<DeviceScript> disk = add(1);
  Host host{target};
};

TEST_F(Admin, EveryOtherOpcodeIsInvalid) {
  const auto known = [](uint32_t opcode) {
    for (const uint32_t one : {0x02u, 0x06u, 0x08u, 0x09u, 0x0Au, 0x0Cu, 0x18u, 0x7Fu})
      if (one == opcode) return true;
    return false;
  };
  for (uint32_t opcode = 0; opcode < 256; ++opcode)
    if (!known(opcode))
      expect_refused(host.admin.run(command::make(static_cast<uint8_t>(opcode))), StatusCode::kInvalidOpcode);
}

struct FeatureRow {
  uint8_t feature;
  uint32_t initial;
  uint32_t changed;
  uint32_t invalid;  // 0: every value is valid
};
constexpr FeatureRow kFeatures[] = {
    {0x01, 0x7, 0x01010103, 0x8},
    {0x02, 0, 0x20, 0x1},
    {0x04, 0xFFFF, 0x0150, 0x10000},
    {0x05, 0, 0x10, 0x10000},
    {0x06, 1, 0, 2},
    {0x07, 0x70007, 0x20002, 0xFFFF},
    {0x0A, 0, 1, 2},
    {0x0B, 0, 1u << 8, 1u << 9},
    {0x0F, 0, 5000, 0},
};

TEST_F(Admin, FeaturesAreKept) {
  for (const FeatureRow& row : kFeatures) {
    SCOPED_TRACE(static_cast<uint32_t>(row.feature));
    EXPECT_EQ(host.admin.run(command::get_features(row.feature)).result, row.initial);
    if (row.invalid != 0)
      expect_refused(host.admin.run(command::set_features(row.feature, row.invalid)),
                     StatusCode::kInvalidField);
    EXPECT_EQ(host.admin.run(command::get_features(row.feature)).result, row.initial);
    EXPECT_TRUE(host.admin.run(command::set_features(row.feature, row.changed)).ok());
    EXPECT_EQ(host.admin.run(command::get_features(row.feature)).result, row.changed);
    // Select: default, saved (as the default), what may be done.
    EXPECT_EQ(host.admin.run(command::get_features(row.feature, 0, 1)).result, row.initial);
    EXPECT_EQ(host.admin.run(command::get_features(row.feature, 0, 2)).result, row.initial);
    EXPECT_EQ(host.admin.run(command::get_features(row.feature, 0, 3)).result, 1u << 2);
  }
}

TEST_F(Admin, FeatureMistakes) {
  for (const uint8_t missing :
       std::to_array<uint8_t>({0x00, 0x03, 0x08, 0x09, 0x0C, 0x0D, 0x0E, 0x10, 0x80, 0x82})) {
    expect_refused(host.admin.run(command::get_features(missing)), StatusCode::kInvalidField);
    expect_refused(host.admin.run(command::set_features(missing, 0)), StatusCode::kInvalidField);
  }
  expect_refused(host.admin.run(command::get_features(0x05, 0, 4)), StatusCode::kInvalidField);
  Command save = command::set_features(0x05, 0);
  save.dword10 |= 1u << 31;
  expect_refused(host.admin.run(save), StatusCode::kFeatureNotSaveable);
  Command specific = command::set_features(0x05, 0);
  specific.nsid = 1;
  expect_refused(host.admin.run(specific), StatusCode::kFeatureNotNamespaceSpecific);
  expect_refused(host.admin.run(command::get_features(0x04, 2u << 20)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::get_features(0x04, 3u << 16)), StatusCode::kInvalidField);
}

TEST_F(Admin, TemperatureThresholdsAreTwo) {
  EXPECT_EQ(host.admin.run(command::get_features(0x04, 1u << 20)).result, 0u);
  EXPECT_TRUE(host.admin.run(command::set_features(0x04, 1u << 20 | 250)).ok());
  EXPECT_TRUE(host.admin.run(command::set_features(0x04, 0xFu << 16 | 350)).ok());
  EXPECT_EQ(host.admin.run(command::get_features(0x04, 1u << 20)).result, 250u);
  EXPECT_EQ(host.admin.run(command::get_features(0x04)).result, 350u);
}

TEST_F(Admin, HostIdentifier) {
  const Answer answer = host.admin.run(command::get_features(0x81, 1));
  EXPECT_TRUE(answer.ok());
  EXPECT_EQ(answer.data, Bytes(16, std::byte{0x42}));
  expect_refused(host.admin.run(command::get_features(0x81, 0)), StatusCode::kInvalidField);  // of 8 bytes
  expect_refused(host.admin.run(command::set_features(0x81, 1)), StatusCode::kCommandSequenceError);
  EXPECT_EQ(host.admin.run(command::get_features(0x81, 1, 3)).result, 0u);
}

TEST_F(Admin, NumberOfQueues) {
  EXPECT_EQ(host.admin.run(command::set_features(0x07, 3 | 1u << 16)).result, 1u | 1u << 16);
  EXPECT_EQ(host.admin.run(command::set_features(0x07, 99 | 99u << 16)).result, 7u | 7u << 16);
  expect_refused(host.admin.run(command::set_features(0x07, 0xFFFFu << 16)), StatusCode::kInvalidField);
  HostQueue& io = host.io();
  expect_refused(host.admin.run(command::set_features(0x07, 1 | 1u << 16)),
                 StatusCode::kCommandSequenceError);
  EXPECT_TRUE(io.drain());
  EXPECT_TRUE(host.admin.run(command::set_features(0x07, 1 | 1u << 16)).ok());
}

TEST_F(Admin, KeepAliveIsRoundedUp) {
  EXPECT_TRUE(host.admin.run(command::set_features(0x0F, 4001)).ok());
  EXPECT_EQ(host.admin.run(command::get_features(0x0F)).result, 5000u);
  EXPECT_TRUE(host.admin.run(command::set_features(0x0F, UINT32_MAX)).ok());
  EXPECT_GE(host.admin.run(command::get_features(0x0F)).result, 4'294'967'000u);
}

TEST_F(Admin, KeepAliveExpires) {
  Host kept(target, {.keep_alive_ms = 5000});
  HostQueue& io = kept.io();
  for (int i = 0; i < 3; ++i) {
    kept.admin.now = kept.admin.now + milliseconds(4900);
    EXPECT_TRUE(kept.admin.run(command::make(command::kKeepAlive)).ok());
  }
  EXPECT_FALSE(kept.admin.queue().ending());
  kept.admin.now = kept.admin.now + milliseconds(5200);
  kept.admin.poll();
  EXPECT_TRUE(kept.admin.queue().ending());
  EXPECT_TRUE(io.queue().ending());
  EXPECT_EQ(io.run(command::blocks(command::kRead, 1, 0, 1)).code, StatusCode::kAbortedQueueDeleted);
  EXPECT_EQ(kept.admin.run(command::make(command::kKeepAlive)).code, StatusCode::kAbortedQueueDeleted);
}

TEST_F(Admin, NoKeepAliveTimeout) {
  wait_for(seconds(100'000));
  EXPECT_FALSE(host.admin.queue().ending());
  ASSERT_TRUE(host.admin.run(command::set_features(0x0F, 1000)).ok());
  wait_for(milliseconds(1300));
  EXPECT_TRUE(host.admin.queue().ending());
}

TEST_F(Admin, ShutDownControllersAreNotTimed) {
  Host kept(target, {.keep_alive_ms = 1000});
  kept.set_configuration(kEnabled | 1u << 14);
  kept.admin.now = kept.admin.now + seconds(60);
  kept.admin.poll();
  EXPECT_FALSE(kept.admin.queue().ending());
}

TEST_F(Admin, EventOfANewNamespace) {
  ASSERT_TRUE(host.admin.run(command::set_features(0x0B, 1u << 8)).ok());
  const uint16_t first = ask_for_event(), second = ask_for_event();
  wait_for(Duration{});
  add(7);
  EXPECT_EQ(host.admin.answer(first)->result, 0x040002u);  // log page 4, attribute changed, notice
  // Only once before the log page was read.
  add(8);
  wait_for(Duration{});
  const auto changed = [this](bool retain) {
    return as<std::array<uint32_t, 3>>(
        host.admin.run(command::get_log_page(LogPage::kChangedNamespaces, 4096, 0, retain)));
  };
  EXPECT_EQ(changed(true), (std::array<uint32_t, 3>{7, 8, 0}));
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 7).ok());
  wait_for(Duration{});
  EXPECT_EQ(changed(false), (std::array<uint32_t, 3>{7, 8, 0}));
  EXPECT_EQ(changed(false), (std::array<uint32_t, 3>{}));
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 8).ok());
  EXPECT_EQ(host.admin.answer(second)->result, 0x040002u);
}

TEST_F(Admin, EventsWaitForRequests) {
  ASSERT_TRUE(host.admin.run(command::set_features(0x0B, 1u << 8 | 1u << 11)).ok());
  add(7);
  ASSERT_TRUE(target.set_ana_state(kSubsystem, 1, AnaState::kNonOptimized).ok());
  const uint16_t first = ask_for_event(), second = ask_for_event();
  EXPECT_EQ(host.admin.answer(first)->result, 0x040002u);
  EXPECT_EQ(host.admin.answer(second)->result, 0x0C0302u);
  // One that has been seen in the log already is not told.
  ASSERT_TRUE(host.admin.run(command::get_log_page(LogPage::kAna, 4096)).ok());
  ASSERT_TRUE(target.set_ana_state(kSubsystem, 1, AnaState::kOptimized).ok());
  ASSERT_TRUE(host.admin.run(command::get_log_page(LogPage::kAna, 4096)).ok());
  ask_for_event();
  wait_for(Duration{});
}

TEST_F(Admin, EventsWithoutARequest) {
  ask_for_event();
  add(7);
  ASSERT_TRUE(target.set_ana_state(kSubsystem, 1, AnaState::kChange).ok());
  wait_for(Duration{});
}

TEST_F(Admin, EventRequestsAreLimited) {
  for (int i = 0; i < Controller::kAsyncEventsMax; ++i) ask_for_event();
  expect_refused(*host.admin.answer(ask_for_event()), StatusCode::kAsyncEventLimitExceeded);
}

TEST_F(Admin, Abort) {
  const auto abort = [this](uint16_t sq_id, uint16_t cid) {
    Command made = command::make(command::kAbort);
    made.dword10 = sq_id | uint32_t{cid} << 16;
    const Answer answer = host.admin.run(made);
    EXPECT_TRUE(answer.ok());
    return answer.result;
  };
  const uint16_t other = ask_for_event(), event = ask_for_event();
  EXPECT_EQ(abort(0, event), 0u);
  EXPECT_EQ(host.admin.answer(event)->code, StatusCode::kAbortRequested);
  EXPECT_EQ(abort(0, event), 1u);
  EXPECT_EQ(abort(3, other), 1u);
  // What is on its way to the device is not called back.
  HostQueue& io = host.io();
  disk->hold = true;
  const uint16_t read = io.send(command::blocks(command::kRead, 1, 0, 1));
  EXPECT_EQ(abort(1, read), 1u);
  disk->hold = false;
  EXPECT_TRUE(io.answer(read)->ok());
}

}  // namespace
}  // namespace uroce::nvmf
