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

}  // namespace
}  // namespace uroce::decode
