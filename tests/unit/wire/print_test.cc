#include "wire/print.h"

#include <gtest/gtest.h>

#include "sample_frames.h"

namespace uroce::wire {
namespace {

std::string printed(const Path& path, const Headers& headers, size_t payload_bytes) {
  const Bytes frame = make_frame(path, headers, Bytes(payload_bytes));
  Packet packet;
  if (parse_frame(frame, packet).result != ParseResult::kRoce) return "not parsed";
  return to_text(packet);
}

Headers headers_of(Service service, Operation operation) {
  Headers headers;
  headers.bth.opcode = Opcode::make(service, operation);
  headers.bth.destination = {0x11};
  headers.bth.psn = Psn(12);
  return headers;
}

TEST(Print, AWriteInOneLine) {
  Headers headers = headers_of(Service::kRc, Operation::kWriteFirst);
  headers.bth.ack_request = true;
  headers.reth = {0x1000, {0x203}, 2048};
  EXPECT_EQ(
      printed(sample_paths()[0].path, headers, 1024),
      "RC WRITE First 198.51.100.1 > 198.51.100.2 qp 0x000011 psn 0x00000c A reth va=0x1000 rkey=0x00000203 "
      "len=2048 + 1024");
}

TEST(Print, WhatAnAethSays) {
  Headers headers = headers_of(Service::kRc, Operation::kAcknowledge);
  headers.aeth = Aeth::nak(NakCode::kRemoteAccess, 7);
  EXPECT_EQ(printed(sample_paths()[2].path, headers, 0),
            "RC Acknowledge 2001:db8::1 > 2001:db8::2 qp 0x000011 psn 0x00000c aeth nak remote-access msn=7");
  EXPECT_EQ(to_text(Aeth::ack(1)), "ack credits=31");
  EXPECT_EQ(to_text(Aeth::rnr(18, 1)), "rnr-nak timer=18");
  EXPECT_EQ(to_text(Aeth{AethKind::kNak, 9, 0}), "nak unknown");
  EXPECT_EQ(to_text(Aeth{AethKind::kReserved, 3, 0}), "reserved 3");
}

TEST(Print, ADatagramWithItsFlags) {
  Headers headers = headers_of(Service::kUd, Operation::kSendOnlyImm);
  headers.bth.solicited = true;
  headers.bth.partition_key = 0x8001;
  headers.deth = {0x11111111, {0x22}};
  headers.immediate = __builtin_bswap32(0xCAFE0001);
  EXPECT_EQ(
      printed(sample_paths()[1].path, headers, 3),
      "UD SEND Only+Imm 198.51.100.1 > 198.51.100.2 qp 0x000011 psn 0x00000c vlan 291 SE pkey=0x8001 deth "
      "qkey=0x11111111 source-qp=0x000022 imm=0xcafe0001 + 3");
}

TEST(Print, EveryOpcodeHasALine) {
  Random random(41);
  for (const Opcode opcode : valid_opcodes()) {
    const Headers headers = sample_headers(opcode, random);
    const std::string text = printed(sample_paths()[0].path, headers, sample_payload_sizes(opcode).front());
    EXPECT_TRUE(text.starts_with(std::string(opcode_row(opcode).name) + " 198.51.100.1 > ")) << text;
  }
}

}  // namespace
}  // namespace uroce::wire
