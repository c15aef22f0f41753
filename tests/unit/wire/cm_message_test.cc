#include "wire/cm_message.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "reader.h"
#include "wire/big_endian.h"
#include "wire/ip_cm.h"
#include "wire/packet.h"

namespace uroce::wire {
namespace {

using Mad = std::array<std::byte, kMadBytes>;

/// The datagrams of the communication manager in the Linux kernel's traffic, file by file.
std::map<std::string, std::vector<Mad>> captured() {
  std::map<std::string, std::vector<Mad>> result;
  for (const auto& file : captures::files()) {
    for (const captures::Frame& frame : captures::frames(file)) {
      Packet packet;
      if (parse_frame(frame, packet).result != ParseResult::kRoce) continue;
      if (packet.headers.bth.destination != QpNumber{1}) continue;
      EXPECT_EQ(packet.headers.deth.qkey, kGsiQkey);
      Mad mad;
      EXPECT_EQ(packet.payload.size(), mad.size());
      std::ranges::copy(packet.payload, mad.begin());
      result[file.stem()].push_back(mad);
    }
  }
  return result;
}

CmMad parsed(const Mad& bytes) {
  CmMad mad;
  EXPECT_EQ(parse_cm(bytes, mad), CmParse::kOk);
  return mad;
}

TEST(CmMessage, Captured_ExpectTheSameBytesWrittenAgain) {
  size_t messages = 0;
  std::map<size_t, size_t> of_kind;
  for (const auto& [file, mads] : captured()) {
    SCOPED_TRACE(file);
    for (const Mad& bytes : mads) {
      const CmMad mad = parsed(bytes);
      Mad again;
      write_cm(again.data(), mad);
      const auto [ours, theirs] = std::ranges::mismatch(again, bytes);
      EXPECT_EQ(ours - again.begin(), ptrdiff_t{kMadBytes}) << "kind " << mad.message.index();
      static_cast<void>(theirs);
      ++messages;
      ++of_kind[mad.message.index()];
    }
  }
  EXPECT_GE(messages, 40u);
  // REQ, REJ, REP, RTU, DREQ, DREP, SIDR_REQ, SIDR_REP
  EXPECT_EQ(of_kind.size(), 8u);
}

TEST(CmMessage, ConnectionOfRping_ExpectWhatItSays) {
  const std::vector<Mad> mads = captured()["cm_rping"];
  ASSERT_EQ(mads.size(), 5u);
  const CmReq req = std::get<CmReq>(parsed(mads[0]).message);
  const CmRep rep = std::get<CmRep>(parsed(mads[1]).message);
  const CmRtu rtu = std::get<CmRtu>(parsed(mads[2]).message);
  const CmDreq dreq = std::get<CmDreq>(parsed(mads[3]).message);
  const CmDrep drep = std::get<CmDrep>(parsed(mads[4]).message);

  EXPECT_EQ(req.service, service_of(PortSpace::kTcp, 7174));
  EXPECT_EQ(req.transport, CmTransport::kRc);
  EXPECT_EQ(req.path_mtu, 3u);
  EXPECT_EQ(req.partition_key, 0xFFFFu);
  EXPECT_EQ(req.remote_cm_response_timeout, 20u);
  EXPECT_EQ(req.local_cm_response_timeout, 20u);
  EXPECT_EQ(req.max_cm_retries, 15u);
  EXPECT_EQ(req.primary.local_gid, Gid::from_ipv4({10, 9, 0, 1}));
  EXPECT_EQ(req.primary.remote_gid, Gid::from_ipv4({10, 9, 0, 2}));
  EXPECT_EQ(req.alternate.local_gid, Gid{});

  const auto ip = parse_ip_cm(req.private_data);
  ASSERT_TRUE(ip.has_value());
  EXPECT_TRUE(ip->ipv4);
  EXPECT_EQ(ip->source, Gid::from_ipv4({10, 9, 0, 1}));
  EXPECT_EQ(ip->destination, Gid::from_ipv4({10, 9, 0, 2}));

  EXPECT_EQ(rep.remote, req.local);
  EXPECT_EQ(rtu.local, req.local);
  EXPECT_EQ(rtu.remote, rep.local);
  // The end that disconnects names the other's queue pair.
  const bool by_client = dreq.local == req.local;
  EXPECT_EQ(dreq.remote_qp, by_client ? rep.qp : req.qp);
  EXPECT_EQ(drep.remote, dreq.local);
}

TEST(CmMessage, RequestToNoListener_ExpectTheReason) {
  const std::vector<Mad> mads = captured()["cm_reject"];
  ASSERT_EQ(mads.size(), 2u);
  const CmMad rej = parsed(mads[1]);
  EXPECT_EQ(std::get<CmRej>(rej.message).reason, RejectReason::kInvalidServiceId);
  EXPECT_EQ(std::get<CmRej>(rej.message).answered, CmAnswered::kReq);
  EXPECT_EQ(std::get<CmRej>(rej.message).remote, std::get<CmReq>(parsed(mads[0]).message).local);
  EXPECT_EQ(rej.transaction_id, parsed(mads[0]).transaction_id);
}

TEST(CmMessage, ServiceResolution_ExpectTheQueuePairAndItsKey) {
  const std::vector<Mad> mads = captured()["cm_sidr_udaddy"];
  ASSERT_EQ(mads.size(), 2u);
  const CmSidrReq req = std::get<CmSidrReq>(parsed(mads[0]).message);
  const CmSidrRep rep = std::get<CmSidrRep>(parsed(mads[1]).message);
  EXPECT_EQ(req.service.value >> 16, static_cast<uint64_t>(PortSpace::kUdp));
  EXPECT_EQ(rep.request, req.request);
  EXPECT_EQ(rep.status, SidrStatus::kSuccess);
  EXPECT_EQ(rep.qkey, kRdmaUdpQkey);
  EXPECT_NE(rep.qp, QpNumber{});
}

TEST(CmMessage, OverIpv6_ExpectTheAddresses) {
  const auto ip = parse_ip_cm(std::get<CmReq>(parsed(captured()["cm_rping_v6"].at(0)).message).private_data);
  ASSERT_TRUE(ip.has_value());
  EXPECT_FALSE(ip->ipv4);
  EXPECT_EQ(ip->source.bytes[0], 0xFD);
  EXPECT_EQ(ip->source.bytes[15], 1);
  EXPECT_EQ(ip->destination.bytes[15], 2);
}

TEST(IpCm, Captured_ExpectTheSameBytesWrittenAgain) {
  for (const auto& [file, mads] : captured()) {
    for (const Mad& bytes : mads) {
      const CmMad mad = parsed(bytes);
      const auto* req = std::get_if<CmReq>(&mad.message);
      if (req == nullptr) continue;
      SCOPED_TRACE(file);
      const auto header = parse_ip_cm(req->private_data);
      ASSERT_TRUE(header.has_value());
      std::array<std::byte, kIpCmBytes> again;
      again.fill(std::byte{0xFF});
      write_ip_cm(again.data(), *header);
      EXPECT_TRUE(std::equal(again.begin(), again.end(), req->private_data.begin()));
    }
  }
}

TEST(IpCm, OtherVersions_ExpectNone) {
  std::array<std::byte, kIpCmBytes> data{};
  for (int version = 0; version < 256; ++version) {
    data[0] = static_cast<std::byte>(version);
    data[1] = std::byte{0x40};
    EXPECT_EQ(parse_ip_cm(data).has_value(), version == 0);
    data[0] = std::byte{0};
    data[1] = static_cast<std::byte>(version);
    EXPECT_EQ(parse_ip_cm(data).has_value(), version >> 4 == 4 || version >> 4 == 6);
  }
  data[1] = std::byte{0x60};
  EXPECT_FALSE(parse_ip_cm(std::span(data).first(kIpCmBytes - 1)).has_value());
}

struct Wrong {
  const char* what;
  MadHeader header;
  CmParse expected;
};

TEST(CmMessage, WhatIsNoMessage_ExpectTheReason) {
  const MadHeader right{.management_class = 7, .class_version = 2, .method = 3, .attribute = 0x10};
  const auto with = [&](auto member, auto value) {
    MadHeader header = right;
    header.*member = value;
    return header;
  };
  const Wrong table[] = {
      {"nothing wrong", right, CmParse::kOk},
      {"base version", with(&MadHeader::base_version, uint8_t{2}), CmParse::kBaseVersion},
      {"class", with(&MadHeader::management_class, uint8_t{3}), CmParse::kClass},
      {"class version", with(&MadHeader::class_version, uint8_t{1}), CmParse::kClassVersion},
      {"method", with(&MadHeader::method, uint8_t{1}), CmParse::kMethod},
      {"attribute below", with(&MadHeader::attribute, uint16_t{0x0F}), CmParse::kAttribute},
      {"attribute above", with(&MadHeader::attribute, uint16_t{0x1B}), CmParse::kAttribute},
      {"no attribute", with(&MadHeader::attribute, uint16_t{0}), CmParse::kAttribute},
  };
  for (const Wrong& wrong : table) {
    SCOPED_TRACE(wrong.what);
    Mad bytes{};
    write_mad_header(bytes.data(), wrong.header);
    CmMad mad;
    EXPECT_EQ(parse_cm(bytes, mad), wrong.expected);
  }
  const std::vector<std::byte> long_one(kMadBytes + 1);
  CmMad mad;
  EXPECT_EQ(parse_cm(std::span(long_one), mad), CmParse::kLength);
  EXPECT_EQ(parse_cm(std::span(long_one).first(kMadBytes - 1), mad), CmParse::kLength);
}

}  // namespace
}  // namespace uroce::wire
