#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <random>
#include <regex>
#include <set>

#include "planted_faults.h"
#include "staged_capture.h"

namespace uroce::decode {
namespace {

using From = StagedCapture::From;
using enum wire::Operation;

std::string to_string(const Findings& findings) {
  std::string text;
  for (const Finding& finding : findings)
    text += "frame " + std::to_string(finding.frame) + ": " + std::string(name_of(finding.rule)) + ": " +
            finding.what + "\n";
  return text;
}

TEST(Decode, GoldenCaptures_ExpectNothingFound) {
  ASSERT_GT(captures::files().size(), 40u);
  for (const auto& file : captures::files()) {
    const auto records = captures::records(file);
    const Outcome outcome = decoded(records);
    EXPECT_EQ(to_string(outcome.findings), "") << file;
    EXPECT_EQ(outcome.totals.frames, records.size()) << file;
    EXPECT_EQ(outcome.totals.roce, records.size()) << file;
  }
}

/// What a capture lacks is unknown, and no fault of what it has.
TEST(Decode, GoldenCapturesThatBeginInTheMiddleAndLoseFrames_ExpectNothingFound) {
  std::mt19937 random(7);
  for (const auto& file : captures::files()) {
    const auto records = captures::records(file);
    for (int round = 0; round < 40; ++round) {
      std::vector<captures::Record> some(records.begin() + static_cast<long>(random() % records.size()),
                                         records.end());
      const auto lost_percent = random() % 30;
      std::erase_if(some, [&](const captures::Record&) { return random() % 100 < lost_percent; });
      EXPECT_EQ(to_string(decoded(some).findings), "") << file << " round " << round;
    }
  }
}

TEST(Decode, GoldenCapturesOfWhichOnlyHeadersWereCaptured_ExpectNothingFound) {
  for (const auto& file : captures::files()) {
    for (const uint32_t bytes : {20u, 60u, 108u}) {
      const Outcome outcome = decoded(captures::records(file), bytes);
      EXPECT_EQ(to_string(outcome.findings), "") << file << " of " << bytes;
      if (bytes == 108) {
        EXPECT_EQ(outcome.totals.cut, 0u) << file;
      }
    }
  }
}

TEST(Decode, AConversation_ExpectNothingFound) {
  StagedCapture capture;
  capture.converse();
  const Outcome outcome = decoded(capture.records());
  EXPECT_EQ(to_string(outcome.findings), "");
  EXPECT_EQ(outcome.streams, 2u);
}

TEST(Decode, PlantedFaults_ExpectEachWithItsRuleAndFrameAndNoOther) {
  for (const PlantedFault& fault : planted_faults()) {
    const Outcome outcome = decoded(fault.records);
    ASSERT_FALSE(outcome.findings.empty()) << fault.what;
    for (const Finding& finding : outcome.findings) {
      EXPECT_EQ(name_of(finding.rule), name_of(fault.rule)) << fault.what << ": " << finding.what;
      EXPECT_EQ(finding.frame, fault.frame) << fault.what << ": " << finding.what;
    }
  }
}

TEST(Decode, EveryRule_ExpectAPlantedFaultAndARowOfTheConformanceTable) {
  std::set<Rule> planted;
  for (const PlantedFault& fault : planted_faults()) planted.insert(fault.rule);
  std::ifstream file(UROCE_RULES);
  const std::string table((std::istreambuf_iterator<char>(file)), {});
  for (size_t i = 0; i < kRuleCount; ++i) {
    const auto rule = static_cast<Rule>(i);
    EXPECT_TRUE(planted.contains(rule)) << name_of(rule);
    EXPECT_NE(table.find("\n[" + std::string(name_of(rule)) + "]\n"), std::string::npos) << name_of(rule);
  }
}

TEST(Decode, APacketThatComesTwice_ExpectDuplicateAndRetransmissionToldApart) {
  StagedCapture capture;
  const uint32_t psn = capture.converse();
  capture.add(From::kClient, kSendOnly, psn, 4);
  capture.records().push_back(capture.records().back());  // with the same identification of IPv4
  capture.add(From::kServer, kAcknowledge, psn).aeth = wire::Aeth::ack(5);
  capture.add(From::kClient, kSendOnly, psn + 1, 4);
  capture.again(4'000'000);
  capture.add(From::kClient, kSendOnly, psn + 3, 4);
  capture.add(From::kServer, kAcknowledge, psn + 2).aeth = wire::Aeth::nak(wire::NakCode::kSequenceError, 6);
  capture.add(From::kClient, kSendOnly, psn + 2, 4);
  capture.add(From::kClient, kSendOnly, psn + 3, 4);
  const Outcome outcome = decoded(capture.records());
  EXPECT_EQ(to_string(outcome.findings), "");
  ASSERT_EQ(outcome.notes.size(), 12u + 9u);
  EXPECT_EQ(outcome.notes[13], "duplicate");
  EXPECT_EQ(outcome.notes[16], "retransmission after 4.000 ms");
  EXPECT_EQ(outcome.notes[19], "late");
  EXPECT_EQ(outcome.notes[20], "retransmission");
}

/// Both begin with the same numbers: responses of the first one say nothing until its requests go on.
TEST(Decode, TwoConnectionsWithTheSameNumbers_ExpectNothingFound) {
  StagedCapture capture;
  for (uint32_t psn = 0; psn < 4; ++psn) {
    for (const uint32_t one : {0u, 1u})
      capture.add(From::kClient, psn == 1 && one == 1 ? kWriteOnly : kSendOnly, psn, 0).bth.destination = {
          0x22 + one};
    for (const uint32_t one : {1u, 0u}) {
      wire::Headers& headers = capture.add(From::kServer, kAcknowledge, psn);
      headers.bth.destination = {0x11 + one};
      headers.aeth = wire::Aeth::ack(psn + 1);
    }
  }
  const Outcome outcome = decoded(capture.records());
  EXPECT_EQ(to_string(outcome.findings), "");
  EXPECT_EQ(outcome.streams, 4u);
}

/// SEND First and three Middles in one frame, and what came before and comes behind it alone.
StagedCapture aggregated(StagedCapture::Network network, uint16_t identification, bool damaged = false) {
  StagedCapture capture(network);
  const uint32_t psn = capture.converse();
  capture.add(From::kClient, kSendFirst, psn, StagedCapture::kMtu);
  for (const uint32_t i : {1u, 2u, 3u})
    capture.add(From::kClient, i == 3 ? kSendLast : kSendMiddle, psn + i, i == 3 ? 20 : StagedCapture::kMtu);
  capture.aggregate(4, identification);
  if (damaged) capture.damage(800);
  capture.add(From::kServer, kAcknowledge, psn + 3).aeth = wire::Aeth::ack(5);
  return capture;
}

TEST(Decode, AFrameOfSeveralPackets_ExpectEachOfThem) {
  for (const auto network : {StagedCapture::Network::kIpv4, StagedCapture::Network::kIpv6}) {
    for (const uint16_t identification : std::initializer_list<uint16_t>{0, 7, 0xFFFE}) {
      StagedCapture capture = aggregated(network, identification);
      const Outcome outcome = decoded(capture.records());
      EXPECT_EQ(to_string(outcome.findings), "");
      EXPECT_EQ(outcome.totals.frames, 12u + 2u);
      EXPECT_EQ(outcome.totals.roce, 12u + 5u);
      EXPECT_EQ(outcome.not_captured, 0u);
      EXPECT_EQ(outcome.streams, 2u);
    }
  }
}

TEST(Decode, AFrameOfSeveralPacketsOfWhichOneIsDamaged_ExpectThatOneFound) {
  StagedCapture capture = aggregated(StagedCapture::Network::kIpv4, 0, true);
  const Outcome outcome = decoded(capture.records());
  ASSERT_EQ(outcome.findings.size(), 1u) << to_string(outcome.findings);
  EXPECT_EQ(name_of(outcome.findings[0].rule), "drop-icrc");
  EXPECT_EQ(outcome.findings[0].frame, 13u);
  EXPECT_EQ(outcome.totals.roce, 12u + 5u);
}

/// The receiver takes back the numbers that the kernel gave the segments, so they are no duplicates.
TEST(Decode, PacketsThatComeAgainInAnotherFrameOfSeveral_ExpectRetransmissions) {
  StagedCapture capture;
  const uint32_t psn = capture.converse();
  for (const int64_t pause_ns : {0, 4'000'000}) {
    capture.wait(pause_ns);
    for (const uint32_t i : {0u, 1u}) capture.add(From::kClient, kSendOnly, psn + i, 60);
    capture.aggregate(2, 0);
  }
  const Outcome outcome = decoded(capture.records());
  EXPECT_EQ(to_string(outcome.findings), "");
  ASSERT_EQ(outcome.notes.size(), 12u + 4u);
  EXPECT_TRUE(outcome.notes[14].starts_with("retransmission after 4.0")) << outcome.notes[14];
  EXPECT_TRUE(outcome.notes[15].starts_with("retransmission after 4.0")) << outcome.notes[15];
}

TEST(Decode, AFrameOfSeveralPacketsThatIsCutAnywhere_ExpectNothingFound) {
  StagedCapture capture = aggregated(StagedCapture::Network::kIpv4, 0);
  const auto bytes = static_cast<uint32_t>(capture.records()[12].frame.size());
  for (uint32_t captured = 20; captured < bytes; captured += 31) {
    const Outcome outcome = decoded(capture.records(), captured);
    EXPECT_EQ(to_string(outcome.findings), "") << captured;
    EXPECT_GE(outcome.totals.cut, captured < 108 ? 0u : 1u) << captured;
  }
}

/// The checksum of UDP that a sender leaves to its NIC is no fault of a capture before the NIC.
TEST(Decode, AChecksumThatIsLeftToTheNic_ExpectNothingFound) {
  StagedCapture capture;
  const uint32_t psn = capture.converse();
  capture.add(From::kClient, kSendOnly, psn, 61);
  capture.aggregate(1, 9);
  EXPECT_EQ(to_string(decoded(capture.records()).findings), "");
}

TEST(Decode, PacketsThatWereAcknowledgedAndNotCaptured_ExpectThemCounted) {
  StagedCapture capture;
  const uint32_t psn = capture.converse();
  for (uint32_t i = 0; i < 8; ++i) {
    capture.add(From::kClient, kSendOnly, psn + i, 4);
    if (i == 1 || i == 2 || i == 7) capture.records().pop_back();
  }
  EXPECT_EQ(decoded(capture.records()).not_captured, 0u) << "they may have been lost before the responder";
  capture.add(From::kServer, kAcknowledge, psn + 1).aeth = wire::Aeth::nak(wire::NakCode::kSequenceError, 6);
  EXPECT_EQ(decoded(capture.records()).not_captured, 0u) << "they were";
  capture.add(From::kClient, kSendOnly, psn + 1, 4);
  capture.add(From::kServer, kAcknowledge, psn + 7).aeth = wire::Aeth::ack(12);
  const Outcome outcome = decoded(capture.records());
  EXPECT_EQ(outcome.not_captured, 2u);
  EXPECT_EQ(to_string(outcome.findings), "");
}

TEST(Decode, OneDirectionOfAConnection_ExpectItSaid) {
  for (const auto& file : captures::files()) {
    if (file.filename() != "rc_send.pcap" && file.filename() != "rc_read.pcap") continue;
    auto records = captures::records(file);
    EXPECT_EQ(decoded(records).one_sided, 0u) << file;
    const Frame first = records.front().frame;
    std::erase_if(records, [&](const captures::Record& one) {
      return !std::equal(one.frame.begin() + 6, one.frame.begin() + 12, first.begin() + 6);
    });
    const Outcome outcome = decoded(records);
    EXPECT_GT(outcome.one_sided, 0u) << file;
    EXPECT_EQ(to_string(outcome.findings), "") << file;
  }
}

/// The READ was executed, so its number is the newest, and a WRITE before it that comes again is acknowledged
/// with its own: that no request of the READ was captured does not say that none was sent.
TEST(Decode, AReadThatWasNotCapturedBehindAWriteThatComesAgain_ExpectNothingFound) {
  StagedCapture capture;
  const uint32_t psn = capture.converse();
  capture.add(From::kServer, kReadResponseOnly, psn + 1, 64);
  capture.add(From::kClient, kSendOnly, psn, 4);
  capture.add(From::kServer, kAcknowledge, psn).aeth = wire::Aeth::ack(6);
  EXPECT_EQ(to_string(decoded(capture.records()).findings), "");
}

}  // namespace
}  // namespace uroce::decode
