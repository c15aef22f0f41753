#include "tests/unit/service/switch_fixture.h"

#include "wire/ip_cm.h"

namespace uroce::testing {

using service::ProgramSwitch;

namespace {

ProgramSwitch::Options options() {
  const std::vector<Gid> addresses{kDeviceAddress};
  return {.device = {.mac = kDeviceMac, .gids = net::GidTable(kDeviceMac, addresses)},
          .frame_bytes_max = 9018,
          .key = {1, 2}};
}

}  // namespace

SwitchTest::SwitchTest() : switch_(options()) { collect(); }

std::unique_ptr<SwitchTest::Member> SwitchTest::make(uint32_t program, uint32_t block) {
  constexpr host::MemoryLayout kLayout(host::kServiceMemory);
  auto member = std::make_unique<Member>();
  auto own = host::make_sealed_memory("test-service", kLayout.bytes());
  auto far = host::map_sealed_memory(member->memory.descriptor(), host::kProgramMemory);
  member->memory.connect(own->descriptor.get());
  const NumberBlock numbers{block << host::kBlockBits, 1u << host::kBlockBits};
  member->attachment =
      std::make_unique<service::ClientSession>(program, numbers, std::move(own->mapping), std::move(*far));
  switch_.add(*member->attachment);
  return member;
}

bool SwitchTest::deliver(const Bytes& frame, bool has_icrc) {
  wire::Packet packet;
  EXPECT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
  return switch_.deliver({.packet = packet, .frame = frame, .has_icrc = has_icrc});
}

bool SwitchTest::deliver_to_group(const Bytes& frame) {
  wire::Packet packet;
  EXPECT_EQ(wire::parse_frame(frame, packet).result, wire::ParseResult::kRoce);
  return switch_.deliver_to_group({.packet = packet, .frame = frame, .has_icrc = true});
}

void SwitchTest::listen(Member& member, uint16_t port, const Gid& address) {
  const uint32_t program = member.attachment->program();
  const host::PortRequest request{
      .space = static_cast<uint16_t>(wire::PortSpace::kTcp), .address = address, .port = port};
  switch_.listeners().set(host::PortPlace::of(request), program);
}

}  // namespace uroce::testing
