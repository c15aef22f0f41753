#include "replay.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "reader.h"
#include "tables.h"

// The Linux kernel at the other end, as the golden captures show it.
namespace uroce::replay {
namespace {

const std::vector<Conversation>& all() {
  static const auto conversations = [] {
    std::vector<Conversation> found;
    for (const auto& file : captures::files()) {
      for (Conversation& conversation : conversations_of(file)) found.push_back(std::move(conversation));
    }
    return found;
  }();
  return conversations;
}

/// A connection and the end of it that we play.
struct Part {
  size_t conversation = 0;
  size_t ours = 0;

  [[nodiscard]] std::string name() const {
    const std::string& capture = all()[conversation].capture;
    size_t before = 0;  // connections of the same capture
    while (before < conversation && all()[conversation - before - 1].capture == capture) ++before;
    if (before == 0) return fmt::format("{}_{}", capture, kEndNames[ours]);
    return fmt::format("{}_{}_{}", capture, before + 1, kEndNames[ours]);
  }
};

std::vector<Part> parts() {
  std::vector<Part> found;
  for (size_t i = 0; i < all().size(); ++i) {
    for (size_t ours = 0; ours < kEndNames.size(); ++ours) found.push_back({i, ours});
  }
  return found;
}

class Replay : public ::testing::TestWithParam<Part> {
 protected:
  [[nodiscard]] static std::vector<std::string> play(Arrival arrival, const PlantedFaults& faults = {}) {
    return replay(all()[GetParam().conversation], GetParam().ours, arrival, faults);
  }
};

TEST_P(Replay, OurEndDoesWhatTheKernelDid) {
  for (const std::string& difference : play(Arrival::kOneByOne)) ADD_FAILURE() << difference;
}

TEST_P(Replay, InBurstsItComesToTheSame) {
  for (const std::string& difference : play(Arrival::kInBursts)) ADD_FAILURE() << difference;
}

/// Makes something of a packet that it should not be; false when there is nothing in it to be changed.
using Change = bool (*)(Packet& packet);

void rewrite(Packet& packet, const wire::Headers& headers) {
  packet = rewritten(packet, headers, packet.parsed.payload);
}

bool wrong_msn(Packet& packet) {
  wire::Headers headers = packet.parsed.headers;
  headers.aeth.msn = (headers.aeth.msn + 1) & 0xFFFFFF;
  if (packet.has_aeth()) rewrite(packet, headers);
  return packet.has_aeth();
}

bool wrong_nak(Packet& packet) {
  wire::Headers headers = packet.parsed.headers;
  const bool nak = packet.has_aeth() && headers.aeth.kind != wire::AethKind::kAck;
  headers.aeth.value ^= 1;
  if (nak) rewrite(packet, headers);
  return nak;
}

bool wrong_psn(Packet& packet) {
  wire::Headers headers = packet.parsed.headers;
  headers.bth.psn = headers.bth.psn - 1u;
  rewrite(packet, headers);
  return true;
}

bool no_ack_request_at_the_end(Packet& packet) {
  wire::Headers headers = packet.parsed.headers;
  const wire::Position position = packet.parsed.row->position;
  const bool end = position == wire::Position::kLast || position == wire::Position::kOnly;
  if (packet.response() || !end) return false;
  headers.bth.ack_request = false;
  rewrite(packet, headers);
  return true;
}

bool wrong_reth(Packet& packet) {
  wire::Headers headers = packet.parsed.headers;
  headers.reth.address += 1;
  const bool reth = packet.parsed.row->headers.has(wire::Header::kReth);
  if (reth) rewrite(packet, headers);
  return reth;
}

bool wrong_payload(Packet& packet) {
  if (packet.parsed.payload.empty()) return false;
  Bytes payload(packet.parsed.payload.begin(), packet.parsed.payload.end());
  payload.back() ^= std::byte{1};
  packet = rewritten(packet, packet.parsed.headers, payload);
  return true;
}

/// A byte less than there should be.
bool wrong_segmentation(Packet& packet) {
  if (packet.parsed.payload.empty()) return false;
  packet = rewritten(packet, packet.parsed.headers, packet.parsed.payload.subspan(1));
  return true;
}

bool left_out(Packet& packet) {
  packet = {};
  return true;
}

/// Each fault once, in the first packet that it applies to and that the capture has.
TEST_P(Replay, APlantedFaultIsNoticed) {
  const Conversation& conversation = all()[GetParam().conversation];
  const auto captured = [&](const Packet& packet) {
    return std::ranges::any_of(conversation.packets, [&](const Packet& other) {
      return conversation.sender(other) == GetParam().ours && other.response() == packet.response() &&
             other.psn() == packet.psn();
    });
  };
  for (const Change change : {wrong_msn, wrong_nak, wrong_psn, no_ack_request_at_the_end, wrong_reth,
                              wrong_payload, wrong_segmentation, left_out}) {
    bool planted = false;
    const auto found =
        play(Arrival::kOneByOne,
             {.frame = [&](Packet& packet) { planted = planted || (captured(packet) && change(packet)); }});
    EXPECT_EQ(planted, !found.empty());
  }
  const Requests own = requests_of(conversation, GetParam().ours);
  const Requests peers = requests_of(conversation, 1 - GetParam().ours);
  if (!own.messages.empty() || !peers.messages.empty()) {
    EXPECT_FALSE(play(Arrival::kOneByOne, {.memory = true}).empty());
  }
}

INSTANTIATE_TEST_SUITE_P(Captures, Replay, ::testing::ValuesIn(parts()),
                         [](const auto& part) { return part.param.name(); });

TEST(ReplayTables, EveryMissingOperationHasItsRowAndNoOtherHasOne) {
  std::vector<MissingRow> found;
  for (const Conversation& conversation : all()) {
    for (size_t end = 0; end < kEndNames.size(); ++end) {
      if (const auto missing = requests_of(conversation, end).missing) {
        found.push_back({conversation.capture, missing->frame, missing->operation});
      }
    }
  }
  const auto& rows = missing_rows();
  for (const MissingRow& row : found) {
    EXPECT_TRUE(std::ranges::count(rows, row) == 1)
        << "missing.txt lacks: " << row.capture << " | " << row.frame << " | " << row.operation;
  }
  for (const MissingRow& row : rows) {
    EXPECT_TRUE(std::ranges::count(found, row) == 1)
        << "missing.txt has, but no capture: " << row.capture << " | " << row.frame << " | " << row.operation;
  }
}

TEST(ReplayTables, TheyNameCapturesThatAreReplayed) {
  std::vector<std::string> named = conditioned_captures();
  for (const DeviationRow& row : deviation_rows()) named.push_back(row.capture);
  for (const std::string& name : named) {
    EXPECT_TRUE(std::ranges::any_of(all(), [&](const auto& known) { return known.capture == name; })) << name;
  }
}

}  // namespace
}  // namespace uroce::replay
