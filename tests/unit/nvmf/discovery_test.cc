// The discovery subsystem.
#include <array>

#include "disks.h"

namespace uroce::nvmf {
namespace {

using namespace testing_disks;

constexpr const char* kOther = "nqn.2026-11.example:other";

template <size_t kEntries>
struct Log {
  DiscoveryLogHeader header;
  DiscoveryLogEntry entries[kEntries];
};

std::string_view field(const char* text, size_t size) {
  const std::string_view all(text, size);
  return all.substr(0, all.find_last_not_of(' ') + 1);
}

class Discovery : public Disks {
 protected:
  Discovery() {
    EXPECT_TRUE(target.add_listener({.address = "192.0.2.1", .service = "4420"}).ok());
    EXPECT_TRUE(
        target.add_listener({.address_family = 2, .address = "2001:db8::1", .service = "4421", .port_id = 2})
            .ok());
    EXPECT_TRUE(target.add_subsystem({.nqn = kOther, .hosts = {"nqn.2026-11.example:friend"}}).ok());
  }
  template <size_t kEntries>
  Log<kEntries> log(Host& of) {
    return as<Log<kEntries>>(of.admin.run(command::get_log_page(LogPage::kDiscovery, sizeof(Log<kEntries>))));
  }

  Host host{target, {.subsystem = std::string(kDiscoveryNqn)}};
};

TEST_F(Discovery, EntriesOfWhatTheHostMayUse) {
  const auto page = log<3>(host);
  EXPECT_EQ(page.header.records, 2u);
  EXPECT_EQ(page.header.record_format, 0);
  const DiscoveryLogEntry& first = page.entries[0];
  EXPECT_EQ(first.transport, 1);
  EXPECT_EQ(first.address_family, 1);
  EXPECT_EQ(first.subsystem_type, 2);
  EXPECT_EQ(first.transport_requirements, 4);
  EXPECT_EQ(first.port_id, 1);
  EXPECT_EQ(first.controller_id, kDynamicController);
  EXPECT_EQ(first.admin_entries_max, 32);
  EXPECT_STREQ(first.subsystem_nqn, kSubsystem);
  EXPECT_EQ(field(first.address, 256), "192.0.2.1");
  EXPECT_EQ(field(first.service, 32), "4420");
  EXPECT_EQ(first.transport_specific[0], 1);
  EXPECT_EQ(first.transport_specific[1], 4);
  EXPECT_EQ(first.transport_specific[2], 1);
  EXPECT_EQ(page.entries[1].address_family, 2);
  EXPECT_EQ(field(page.entries[1].address, 256), "2001:db8::1");
  EXPECT_EQ(page.entries[2].transport, 0);

  Host invited(target, {.subsystem = std::string(kDiscoveryNqn), .nqn = "nqn.2026-11.example:friend"});
  EXPECT_EQ(log<4>(invited).header.records, 4u);
}

TEST_F(Discovery, PartByPart) {
  const Bytes whole = host.admin.run(command::get_log_page(LogPage::kDiscovery, 3072)).data;
  Bytes parts;
  for (uint64_t offset = 0; offset < 3072; offset += 512) {
    const Bytes part = host.admin.run(command::get_log_page(LogPage::kDiscovery, 512, offset)).data;
    parts.insert(parts.end(), part.begin(), part.end());
  }
  EXPECT_EQ(parts, whole);
  expect_refused(host.admin.run(command::get_log_page(LogPage::kDiscovery, 512, 3076)),
                 StatusCode::kInvalidField);
}

TEST_F(Discovery, GenerationCountsChanges) {
  uint64_t generation = log<1>(host).header.generation;
  const auto changed = [&] {
    return std::exchange(generation, log<1>(host).header.generation) != generation;
  };
  EXPECT_FALSE(changed());
  ASSERT_TRUE(target.remove_listener("192.0.2.1", "4420").ok());
  EXPECT_TRUE(changed());
  ASSERT_TRUE(target.set_hosts(kOther, {}, true).ok());
  EXPECT_TRUE(changed());
  ASSERT_TRUE(target.remove_subsystem(kOther).ok());
  EXPECT_TRUE(changed());
  add(1);
  EXPECT_FALSE(changed());
}

TEST_F(Discovery, TellsOfChanges) {
  EXPECT_TRUE(host.admin.run(command::set_features(0x0B, 1u << 31)).ok());
  const uint16_t event = host.admin.send(command::make(command::kAsyncEventRequest));
  EXPECT_TRUE(host.admin.poll().empty());
  ASSERT_TRUE(target.remove_listener("192.0.2.1", "4420").ok());
  EXPECT_EQ(host.admin.answer(event)->result, 0x70F002u);
}

TEST_F(Discovery, Controller) {
  const auto page = as<IdentifyController>(host.admin.run(command::identify(IdentifyCode::kController)));
  EXPECT_EQ(page.controller_type, 2);
  EXPECT_EQ(page.oaes, 1u << 31);
  EXPECT_EQ(page.namespaces, 0u);
  EXPECT_EQ(page.log_page_attributes, 4);
  EXPECT_STREQ(page.nqn, std::string(kDiscoveryNqn).c_str());
}

TEST_F(Discovery, HasNothingElse) {
  for (const IdentifyCode code :
       {IdentifyCode::kNamespace, IdentifyCode::kActiveNamespaces, IdentifyCode::kNamespaceDescriptors})
    expect_refused(host.admin.run(command::identify(code, 1)), StatusCode::kInvalidField);
  for (const LogPage page :
       {LogPage::kSmart, LogPage::kAna, LogPage::kChangedNamespaces, LogPage::kFirmwareSlot})
    expect_refused(host.admin.run(command::get_log_page(page, 64)), StatusCode::kInvalidLogPage);
  for (const uint8_t feature : std::to_array<uint8_t>({0x01, 0x05, 0x06, 0x07, 0x81}))
    expect_refused(host.admin.run(command::get_features(feature, 1)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::set_features(0x0B, 1u << 8)), StatusCode::kInvalidField);
  expect_refused(host.admin.run(command::make(command::kAbort)), StatusCode::kInvalidOpcode);
  HostQueue io(target, {.entries = 32});
  const Answer answer = io.run(command::connect(1, 31),
                               bytes_of(connect_data(std::string(kDiscoveryNqn), kHost, host.controller)));
  expect_refused(answer, StatusCode::kConnectInvalidParameters);
  EXPECT_EQ(answer.result, 42u);
  // And others have no discovery log.
  Host other(target);
  expect_refused(other.admin.run(command::get_log_page(LogPage::kDiscovery, 64)),
                 StatusCode::kInvalidLogPage);
}

TEST_F(Discovery, KeepAlive) {
  EXPECT_TRUE(host.admin.run(command::set_features(0x0F, 30'000)).ok());
  EXPECT_TRUE(host.admin.run(command::make(command::kKeepAlive)).ok());
  host.admin.now = host.admin.now + seconds(31);
  host.admin.poll();
  EXPECT_TRUE(host.admin.queue().ending());
}

TEST_F(Discovery, HostThatIsSilentIsGivenUp) {
  for (int i = 0; i < 3; ++i) {
    host.admin.now = host.admin.now + seconds(119);
    EXPECT_TRUE(host.admin.run(command::get_log_page(LogPage::kDiscovery, 16)).ok());
    EXPECT_FALSE(host.admin.queue().ending());
  }
  host.admin.now = host.admin.now + seconds(121);
  host.admin.poll();
  EXPECT_TRUE(host.admin.queue().ending());
}

struct Wrong {
  const char* name;
  Status (*call)(Target&);
  int code;
};

NamespaceOptions with(uint32_t nsid, DeviceScript script = {}, uint32_t group = 1) {
  NamespaceOptions options;
  options.nsid = nsid;
  options.ana_group = group;
  options.device = make_scripted_device(std::make_shared<DeviceScript>(std::move(script)));
  return options;
}

const Wrong kWrong[] = {
    {"subsystem twice", [](Target& t) { return t.add_subsystem({.nqn = kSubsystem}); }, EEXIST},
    {"no NQN", [](Target& t) { return t.add_subsystem({.nqn = "disks"}); }, EINVAL},
    {"long NQN", [](Target& t) { return t.add_subsystem({.nqn = "nqn." + std::string(220, 'x')}); }, EINVAL},
    {"discovery NQN", [](Target& t) { return t.add_subsystem({.nqn = std::string(kDiscoveryNqn)}); }, EINVAL},
    {"long serial",
     [](Target& t) { return t.add_subsystem({.nqn = "nqn.a", .serial = std::string(21, 'x')}); }, EINVAL},
    {"serial with a control character",
     [](Target& t) { return t.add_subsystem({.nqn = "nqn.a", .serial = "\n"}); }, EINVAL},
    {"host without NQN", [](Target& t) { return t.add_subsystem({.nqn = "nqn.a", .hosts = {"x"}}); }, EINVAL},
    {"no queues", [](Target& t) { return t.add_subsystem({.nqn = "nqn.a", .io_queues_max = 0}); }, EINVAL},
    {"no controllers", [](Target& t) { return t.add_subsystem({.nqn = "nqn.a", .controllers_max = 0}); },
     EINVAL},
    {"unknown subsystem", [](Target& t) { return t.remove_subsystem("nqn.a"); }, ENOENT},
    {"namespace of no subsystem", [](Target& t) { return t.add_namespace("nqn.a", with(1)); }, ENOENT},
    {"namespace 0", [](Target& t) { return t.add_namespace(kSubsystem, with(0)); }, EINVAL},
    {"namespace 1025", [](Target& t) { return t.add_namespace(kSubsystem, with(1025)); }, EINVAL},
    {"namespace without device",
     [](Target& t) { return t.add_namespace(kSubsystem, NamespaceOptions{.nsid = 1, .device = nullptr}); },
     EINVAL},
    {"blocks of 520", [](Target& t) { return t.add_namespace(kSubsystem, with(1, {.block_bytes = 520})); },
     EINVAL},
    {"empty device", [](Target& t) { return t.add_namespace(kSubsystem, with(1, {.blocks = 0})); }, EINVAL},
    {"ANA group 33", [](Target& t) { return t.add_namespace(kSubsystem, with(1, {}, 33)); }, EINVAL},
    {"ANA group 0", [](Target& t) { return t.set_ana_state(kSubsystem, 0, AnaState::kChange); }, EINVAL},
    {"unknown namespace", [](Target& t) { return t.remove_namespace(kSubsystem, 3); }, ENOENT},
    {"host list with a word", [](Target& t) { return t.set_hosts(kSubsystem, {"x"}, false); }, EINVAL},
    {"listener twice", [](Target& t) { return t.add_listener({.address = "192.0.2.1", .service = "4420"}); },
     EEXIST},
    {"long address", [](Target& t) { return t.add_listener({.address = std::string(256, '1')}); }, EINVAL},
    {"unknown listener", [](Target& t) { return t.remove_listener("192.0.2.9", "4420"); }, ENOENT},
};

TEST_F(Discovery, ConfigurationMistakes) {
  for (const Wrong& wrong : kWrong) {
    SCOPED_TRACE(wrong.name);
    const Status status = wrong.call(target);
    EXPECT_EQ(status.error().code, wrong.code);
    EXPECT_FALSE(status.error().message.empty());
  }
  EXPECT_TRUE(target.add_namespace(kSubsystem, with(1)).ok());
  EXPECT_EQ(target.add_namespace(kSubsystem, with(1)).error().code, EEXIST);
}

}  // namespace
}  // namespace uroce::nvmf
