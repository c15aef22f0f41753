// Identify structures and log pages.
#include <algorithm>
#include <array>
#include <string_view>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

std::string_view text(const char* field, size_t size) { return {field, size}; }

class Pages : public Disks {
 protected:
  template <typename T>
  T log(LogPage page, uint64_t offset = 0) {
    const Answer answer = host.admin.run(command::get_log_page(page, sizeof(T), offset));
    EXPECT_TRUE(answer.ok());
    return as<T>(answer);
  }

  std::shared_ptr<DeviceScript> disk = add(1);
  Host host{target, {.transport = {.data_bytes_max = 64 << 10, .in_capsule_bytes = 8192, .sgls = 0x100005}}};
};

TEST_F(Pages, Controller) {
  const auto page = as<IdentifyController>(host.admin.run(command::identify(IdentifyCode::kController)));
  EXPECT_EQ(text(page.serial, 20), "S1                  ");
  EXPECT_EQ(text(page.model, 40), "Disk                                    ");
  EXPECT_EQ(text(page.firmware, 8), "1.2     ");
  EXPECT_STREQ(page.nqn, kSubsystem);
  EXPECT_EQ(page.controller_id, host.controller);
  EXPECT_EQ(page.version, 0x10400u);
  EXPECT_EQ(page.controller_type, 1);
  EXPECT_EQ(page.mdts, 4);
  EXPECT_EQ(page.sgls, 0x100005u);
  EXPECT_EQ(page.command_capsule_16_bytes, (64u + 8192) / 16);
  EXPECT_EQ(page.response_capsule_16_bytes, 1u);
  EXPECT_EQ(page.in_capsule_offset, 0);
  EXPECT_EQ(page.commands_max, 128);
  EXPECT_EQ(page.sq_entry_size, 0x66);
  EXPECT_EQ(page.cq_entry_size, 0x44);
  EXPECT_EQ(page.namespaces, kNsidMax);
  EXPECT_NE(page.keep_alive_granularity, 0);
  EXPECT_EQ(page.async_event_limit, 3);
}

/// A bit says that a command is there; and it is.
TEST_F(Pages, ControllerSaysWhatThereIs) {
  const auto page = as<IdentifyController>(host.admin.run(command::identify(IdentifyCode::kController)));
  HostQueue& io = host.io();
  const auto there = [&](uint8_t opcode) {
    return io.run(command::blocks(opcode, 1, 0, 1), Bytes(512)).code != StatusCode::kInvalidOpcode;
  };
  const struct {
    uint16_t bit;
    uint8_t opcode;
  } kRows[] = {{1u << 0, command::kCompare},
               {1u << 1, 0x04},  // Write Uncorrectable
               {1u << 2, command::kDatasetManagement},
               {1u << 3, command::kWriteZeroes},
               {1u << 5, 0x0D},  // reservations
               {1u << 7, command::kVerify}};
  for (const auto& row : kRows) EXPECT_EQ((page.oncs & row.bit) != 0, there(row.opcode)) << row.bit;
  EXPECT_EQ(page.oacs, 0);
  EXPECT_EQ(page.fuses, 1);
  EXPECT_EQ(page.optional_fabrics_commands, 1);
  EXPECT_EQ(page.volatile_write_cache, 7);
}

TEST_F(Pages, Namespace) {
  NamespaceOptions named;
  named.nguid[0] = 0x11;
  named.eui64[7] = 0x22;
  named.ana_group = 3;
  add(6, {.block_bytes = 4096, .blocks = 77, .read_only = true}, std::move(named));
  const auto page = as<IdentifyNamespace>(host.admin.run(command::identify(IdentifyCode::kNamespace, 6)));
  EXPECT_EQ(page.size, 77u);
  EXPECT_EQ(page.capacity, 77u);
  EXPECT_EQ(page.formats, 0);
  EXPECT_EQ(page.lba_formats[0].data_bytes_log2, 12);
  EXPECT_EQ(page.lba_formats[0].metadata_bytes, 0);
  EXPECT_EQ(page.sharing, 1);
  EXPECT_EQ(page.attributes, 1);
  EXPECT_EQ(page.ana_group, 3u);
  EXPECT_EQ(page.nguid[0], 0x11);
  EXPECT_EQ(page.eui64[7], 0x22);

  EXPECT_EQ(as<IdentifyNamespace>(host.admin.run(command::identify(IdentifyCode::kNamespace, 1))).attributes,
            0);
  // Not attached: zeroes. Not an NSID: an error.
  EXPECT_EQ(host.admin.run(command::identify(IdentifyCode::kNamespace, 5)).data, Bytes(4096));
  for (const uint32_t nsid : {0u, kNsidMax + 1, kAllNamespaces})
    expect_refused(host.admin.run(command::identify(IdentifyCode::kNamespace, nsid)),
                   StatusCode::kInvalidNamespace);
}

TEST_F(Pages, Descriptors) {
  NamespaceOptions named;
  named.uuid.fill(0xAB);
  named.nguid.fill(0xCD);
  named.eui64.fill(0xEF);
  add(6, {}, std::move(named));
  const Bytes page = host.admin.run(command::identify(IdentifyCode::kNamespaceDescriptors, 6)).data;
  Bytes expected(4096);
  auto at = expected.begin();
  const auto name = [&at](uint8_t type, uint8_t size, uint8_t value) {
    *at = std::byte{type};
    *(at + 1) = std::byte{size};
    at = std::fill_n(at + 4, size, std::byte{value});
  };
  name(3, 16, 0xAB);
  name(2, 16, 0xCD);
  name(1, 8, 0xEF);
  EXPECT_EQ(page, expected);
  for (const uint32_t nsid : {0u, 5u, kAllNamespaces})
    expect_refused(host.admin.run(command::identify(IdentifyCode::kNamespaceDescriptors, nsid)),
                   StatusCode::kInvalidNamespace);
}

TEST_F(Pages, ANamespaceWithoutNameHasAUuidThatStays) {
  const auto uuid = [](Host& of, uint32_t nsid) {
    const Bytes page = of.admin.run(command::identify(IdentifyCode::kNamespaceDescriptors, nsid)).data;
    EXPECT_EQ(page[0], std::byte{3});
    return Bytes(page.begin() + 4, page.begin() + 20);
  };
  add(2);
  const Bytes first = uuid(host, 1);
  EXPECT_NE(first, uuid(host, 2));
  ASSERT_TRUE(target.remove_namespace(kSubsystem, 1).ok());
  add(1);
  EXPECT_EQ(uuid(host, 1), first);
}

TEST_F(Pages, ActiveNamespaces) {
  add(3);
  add(1024);
  const auto list = [this](uint32_t after) {
    return as<std::array<uint32_t, 4>>(
        host.admin.run(command::identify(IdentifyCode::kActiveNamespaces, after)));
  };
  EXPECT_EQ(list(0), (std::array<uint32_t, 4>{1, 3, 1024, 0}));
  EXPECT_EQ(list(1), (std::array<uint32_t, 4>{3, 1024, 0, 0}));
  EXPECT_EQ(list(1024), (std::array<uint32_t, 4>{}));
  for (const uint32_t after : {0xFFFFFFFEu, 0xFFFFFFFFu})
    expect_refused(host.admin.run(command::identify(IdentifyCode::kActiveNamespaces, after)),
                   StatusCode::kInvalidNamespace);
}

TEST_F(Pages, OtherIdentifyCodes) {
  for (uint32_t code = 4; code < 256; ++code)
    expect_refused(host.admin.run(command::identify(static_cast<IdentifyCode>(code), 1)),
                   StatusCode::kInvalidField);
}

TEST_F(Pages, ErrorLog) {
  HostQueue& io = host.io();
  EXPECT_EQ(log<ErrorLogEntry>(LogPage::kError).count, 0u);
  Command wrong = command::blocks(command::kRead, 1, 999, 1);
  const Answer answer = io.run(wrong);
  ASSERT_EQ(answer.code, StatusCode::kLbaOutOfRange);
  const auto entry = log<ErrorLogEntry>(LogPage::kError);
  EXPECT_EQ(entry.count, 1u);
  EXPECT_EQ(entry.sq_id, 1);
  EXPECT_EQ(entry.cid, answer.cid);
  EXPECT_EQ(entry.status, 0x8000 | 0x80 << 1);
  EXPECT_EQ(entry.parameter, 40);
  EXPECT_EQ(entry.lba, 999u);
  EXPECT_EQ(entry.nsid, 1u);
  EXPECT_EQ(entry.transport, 1);
  // The newest first, as many as there is room for.
  for (int i = 0; i < 70; ++i) io.run(wrong);
  const auto all = log<std::array<ErrorLogEntry, 66>>(LogPage::kError);
  EXPECT_EQ(all[0].count, 71u);
  EXPECT_EQ(all[63].count, 8u);
  EXPECT_EQ(all[64].count, 0u);
  EXPECT_EQ(log<SmartLog>(LogPage::kSmart).error_log_entries.low, 71u);
}

TEST_F(Pages, Smart) {
  {
    HostQueue gone(target, {.entries = 32});
    ASSERT_TRUE(
        gone.run(command::connect(2, 31), bytes_of(connect_data(kSubsystem, kHost, host.controller))).ok());
    EXPECT_TRUE(gone.run(command::blocks(command::kRead, 1, 0, 100)).ok());
  }
  HostQueue& io = host.io();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(io.run(command::blocks(command::kRead, 1, 0, 100)).ok());
  EXPECT_TRUE(io.run(command::blocks(command::kVerify, 1, 0, 1)).ok());
  for (int i = 0; i < 3; ++i)
    EXPECT_TRUE(io.run(command::blocks(command::kWrite, 1, 0, 2), Bytes(1024)).ok());
  EXPECT_FALSE(io.run(command::blocks(command::kRead, 1, 999, 1)).ok());
  disk->outcomes = {Outcome::kMediaError};
  EXPECT_FALSE(io.run(command::blocks(command::kRead, 1, 0, 1)).ok());
  host.admin.now = host.admin.now + seconds(2 * 3600 + 1);
  const auto page = log<SmartLog>(LogPage::kSmart);
  EXPECT_EQ(page.host_reads.low, 12u);
  EXPECT_EQ(page.host_writes.low, 3u);
  EXPECT_EQ(page.data_units_read.low, 2u);  // 1101 of 512 bytes
  EXPECT_EQ(page.data_units_written.low, 1u);
  EXPECT_EQ(page.media_errors.low, 1u);
  EXPECT_EQ(page.power_on_hours.low, 2u);
  EXPECT_EQ(page.critical_warning, 0);
  EXPECT_EQ(page.spare_percent, 100);
  Command one = command::get_log_page(LogPage::kSmart, 512);
  one.nsid = 1;
  expect_refused(host.admin.run(one), StatusCode::kInvalidField);
}

TEST_F(Pages, Firmware) {
  const auto page = log<FirmwareSlotLog>(LogPage::kFirmwareSlot);
  EXPECT_EQ(page.active, 1);
  EXPECT_EQ(text(page.revisions[0], 8), "1.2     ");
}

TEST_F(Pages, CommandEffects) {
  const auto page = log<CommandEffectsLog>(LogPage::kCommandEffects);
  HostQueue& io = host.io();
  for (uint32_t opcode = 0; opcode < 256; ++opcode) {
    if (opcode == kFabricsOpcode) continue;
    const auto there = [opcode](HostQueue& queue) {
      return queue.run(command::make(static_cast<uint8_t>(opcode))).code != StatusCode::kInvalidOpcode;
    };
    EXPECT_EQ((page.io[opcode] & 1) != 0, there(io)) << opcode;
    if (opcode == command::kAsyncEventRequest) continue;  // it rests
    EXPECT_EQ((page.admin[opcode] & 1) != 0, there(host.admin)) << opcode;
  }
  EXPECT_EQ(page.io[command::kWrite], kEffectSupported | kEffectBlockContents);
  EXPECT_EQ(page.io[command::kRead], kEffectSupported);
}

struct AnaPage {
  AnaLogHeader header;
  AnaGroupDescriptor first;
  uint32_t nsids[2];
  AnaGroupDescriptor second;
  uint32_t nsid;
};

TEST_F(Pages, Ana) {
  NamespaceOptions other;
  other.ana_group = 2;
  add(2, {}, std::move(other));
  add(3);
  auto page = log<AnaPage>(LogPage::kAna);
  EXPECT_EQ(page.header.groups, 2);
  EXPECT_EQ(page.first.group, 1u);
  EXPECT_EQ(page.first.state, 1);
  EXPECT_EQ(page.first.namespaces, 2u);
  EXPECT_EQ(page.nsids[0], 1u);
  EXPECT_EQ(page.nsids[1], 3u);
  EXPECT_EQ(page.second.group, 2u);
  EXPECT_EQ(page.nsid, 2u);
  const uint64_t before = page.header.change_count;
  ASSERT_TRUE(target.set_ana_state(kSubsystem, 2, AnaState::kInaccessible).ok());
  page = log<AnaPage>(LogPage::kAna);
  EXPECT_EQ(page.header.change_count, before + 1);
  EXPECT_EQ(page.second.state, 3);
  EXPECT_GT(page.second.change_count, page.first.change_count);
  // Groups only.
  Command groups = command::get_log_page(LogPage::kAna, 16 + 2 * 32);
  groups.dword10 |= 1u << 8;
  const Bytes bytes = host.admin.run(groups).data;
  EXPECT_EQ(static_cast<uint32_t>(bytes[16 + 32]), 2u);
  EXPECT_EQ(static_cast<uint32_t>(bytes[16 + 4]), 0u);
}

TEST_F(Pages, AnaStatesDecideAccess) {
  HostQueue& io = host.io();
  const struct {
    AnaState state;
    StatusCode code;
  } kRows[] = {{AnaState::kNonOptimized, StatusCode::kSuccess},
               {AnaState::kInaccessible, StatusCode::kAnaInaccessible},
               {AnaState::kPersistentLoss, StatusCode::kAnaPersistentLoss},
               {AnaState::kChange, StatusCode::kAnaTransition},
               {AnaState::kOptimized, StatusCode::kSuccess}};
  for (const auto& row : kRows) {
    ASSERT_TRUE(target.set_ana_state(kSubsystem, 1, row.state).ok());
    const Answer answer = io.run(command::blocks(command::kRead, 1, 0, 1));
    EXPECT_EQ(answer.code, row.code);
    EXPECT_FALSE(answer.do_not_retry);
    EXPECT_TRUE(host.admin.run(command::identify(IdentifyCode::kNamespace, 1)).ok());
  }
}

TEST_F(Pages, OffsetsAndLengths) {
  const Bytes whole = host.admin.run(command::get_log_page(LogPage::kCommandEffects, 4096)).data;
  for (const uint64_t offset : {4ull, 1020ull, 4000ull}) {
    const Bytes part = host.admin.run(command::get_log_page(LogPage::kCommandEffects, 96, offset)).data;
    EXPECT_TRUE(std::equal(part.begin(), part.end(), whole.begin() + static_cast<std::ptrdiff_t>(offset)));
  }
  // Behind the end there are zeroes, and then nothing.
  EXPECT_EQ(host.admin.run(command::get_log_page(LogPage::kCommandEffects, 96, 4096)).data, Bytes(96));
  expect_refused(host.admin.run(command::get_log_page(LogPage::kCommandEffects, 96, 4100)),
                 StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::get_log_page(LogPage::kSmart, 4, UINT64_MAX - 3)),
                 StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::get_log_page(LogPage::kSmart, 4, 2)), StatusCode::kInvalidField);
  EXPECT_TRUE(host.admin.run(command::get_log_page(LogPage::kSmart, 64 << 10)).ok());
  expect_refused(host.admin.run(command::get_log_page(LogPage::kSmart, (64 << 10) + 4)),
                 StatusCode::kInvalidField);
  Command most = command::get_log_page(LogPage::kSmart, 4);
  most.dword10 |= 0xFFFFu << 16;
  most.dword11 = 0xFFFF;
  expect_refused(host.admin.run(most), StatusCode::kInvalidField);
}

TEST_F(Pages, OtherLogPages) {
  for (uint32_t page = 0; page < 256; ++page) {
    const bool known = (page >= 1 && page <= 5) || page == 0x0C;
    if (!known)
      expect_refused(host.admin.run(command::get_log_page(static_cast<LogPage>(page), 64)),
                     StatusCode::kInvalidLogPage);
  }
}

}  // namespace
}  // namespace uroce::nvmf
