#include <filesystem>
#include <optional>
#include <string_view>

#include "qp/attributes/datagram_address.h"
#include "qp/responder/inbound_message.h"
#include "tests/captures/reader.h"
#include "tests/unit/qp/fixture.h"

// Messages of the Linux kernel on UC and UD (tests/captures): we take them as they were captured, and send
// the same messages in packets that say the same. RC is tests/replay.

namespace uroce::qp::testing {
namespace {

using queue::SendOperation;

constexpr uint32_t kCapturedMtu = 1024;

struct Captured {
  captures::Frame frame;
  wire::Packet packet;  // points into frame

  [[nodiscard]] bool has(wire::Header header) const { return packet.row->headers.has(header); }
  [[nodiscard]] bool write() const { return packet.row->family == wire::Family::kWrite; }
};

/// The packets of a file's first conversation.
std::vector<Captured> packets_of(std::string_view name) {
  std::vector<Captured> packets;
  for (const std::filesystem::path& file : captures::files()) {
    if (file.stem() != name) continue;
    for (captures::Frame& frame : captures::frames(file)) {
      Captured captured{std::move(frame), {}};
      EXPECT_EQ(wire::parse_frame(captured.frame, captured.packet).result, wire::ParseResult::kRoce);
      EXPECT_TRUE(wire::icrc_matches(captured.packet));
      packets.push_back(std::move(captured));
    }
  }
  EXPECT_FALSE(packets.empty()) << name;
  return packets;
}

class CapturedMessages : public QueuePairTest {
 protected:
  explicit CapturedMessages(Type its_type) : QueuePairTest(its_type, kCapturedMtu) {}

  /// We are the receiver of these.
  void receive_all(std::vector<Captured>& packets) {
    const wire::Packet& first = packets.front().packet;
    attributes.path.source = first.destination;
    attributes.path.destination = first.source;
    attributes.path_mtu = PathMtu::k1024;
    attributes.rq_psn = first.headers.bth.psn;
    attributes.qkey = first.headers.deth.qkey;
    bring_up(State::kRtr);
    std::optional<Bytes> message;
    for (Captured& captured : packets) {
      wire::Packet& packet = captured.packet;
      if (begins_message(*packet.row)) {
        message.emplace();
        if (!captured.write()) post_receive(8192, kReceives);
      }
      ASSERT_TRUE(message);
      // The kernel's keys and addresses as ours.
      if (captured.has(wire::Header::kReth)) {
        packet.headers.reth.rkey = keys.rkey;
        packet.headers.reth.address = kIova + kWrites;
      }
      if (captured.write() && packet.row->consumes_receive) post_receive(0);
      ASSERT_EQ(queue_pair->receive(packet, turn), Receipt::kTaken);
      commit_placements(turn);
      completions.publish_all();
      message->insert(message->end(), packet.payload.begin(), packet.payload.end());
      if (ends_message(*packet.row)) check(captured, *message);
    }
    EXPECT_EQ(counter(Counter::kRequestsExecuted), packets.size());
  }

  /// We are their sender.
  void send_all(const std::vector<Captured>& packets) {
    attributes.path_mtu = PathMtu::k1024;
    attributes.sq_psn = packets.front().packet.headers.bth.psn;
    bring_up();
    uint64_t offset = 0;
    uint32_t length = 0;
    for (const Captured& captured : packets) {
      const wire::Packet& packet = captured.packet;
      fill(offset + length, Bytes(packet.payload.begin(), packet.payload.end()));
      length += static_cast<uint32_t>(packet.payload.size());
      if (!ends_message(*packet.row)) continue;
      const bool immediate = captured.has(wire::Header::kImmediate);
      const SendOperation operation = captured.write()
                                          ? (immediate ? SendOperation::kWriteImm : SendOperation::kWrite)
                                          : (immediate ? SendOperation::kSendImm : SendOperation::kSend);
      queue::SendRequest& request = post(operation, length, offset);
      request.immediate = packet.headers.immediate;
      request.solicited = packet.headers.bth.solicited;
      if (type == Type::kUd) {
        DatagramAddress address = sends.attachment<DatagramAddress>(request);
        address.qkey = packet.headers.deth.qkey;
        sends.attach(request, address);
      }
      offset += length;
      length = 0;
    }
    const std::vector<Sent> sent = pump();
    ASSERT_EQ(sent.size(), packets.size());
    for (size_t i = 0; i < sent.size(); ++i) expect_the_same(sent[i].packet, packets[i]);
  }

 private:
  static constexpr uint64_t kReceives = 0;
  static constexpr uint64_t kWrites = 16384;

  void check(const Captured& last, const Bytes& message) {
    const uint32_t header = type == Type::kUd ? 40 : 0;
    EXPECT_EQ(memory_at(last.write() ? kWrites : kReceives + header, message.size()), message);
    const auto done = receive_completions();
    ASSERT_EQ(done.size(), last.packet.row->consumes_receive ? 1u : 0u);
    if (done.empty()) return;
    EXPECT_EQ(done[0].status, queue::CompletionStatus::kSuccess);
    EXPECT_EQ(done[0].bytes, header + message.size());
    EXPECT_EQ(done[0].has_immediate, last.has(wire::Header::kImmediate));
    if (done[0].has_immediate) {
      EXPECT_EQ(done[0].immediate, last.packet.headers.immediate);
    }
    if (type == Type::kUd) {
      EXPECT_EQ(done[0].remote, last.packet.headers.deth.source);
    }
  }

  static void expect_the_same(const wire::Packet& ours, const Captured& captured) {
    const wire::Packet& theirs = captured.packet;
    EXPECT_EQ(ours.row, theirs.row);
    EXPECT_EQ(ours.headers.bth.psn, theirs.headers.bth.psn);
    EXPECT_EQ(ours.headers.bth.pad, theirs.headers.bth.pad);
    EXPECT_EQ(ours.headers.bth.solicited, theirs.headers.bth.solicited);
    EXPECT_EQ(ours.headers.bth.ack_request, theirs.headers.bth.ack_request);
    EXPECT_EQ(ours.headers.bth.partition_key, theirs.headers.bth.partition_key);
    EXPECT_TRUE(std::ranges::equal(ours.payload, theirs.payload));
    if (captured.has(wire::Header::kImmediate)) {
      EXPECT_EQ(ours.headers.immediate, theirs.headers.immediate);
    }
    if (captured.has(wire::Header::kReth)) {
      EXPECT_EQ(ours.headers.reth.length, theirs.headers.reth.length);
    }
    if (captured.has(wire::Header::kDeth)) {
      EXPECT_EQ(ours.headers.deth.qkey, theirs.headers.deth.qkey);
    }
  }
};

class CapturedUc : public CapturedMessages {
 protected:
  CapturedUc() : CapturedMessages(Type::kUc) {}
};

TEST_F(CapturedUc, AreTaken) {
  auto packets = packets_of("uc");
  receive_all(packets);
}
TEST_F(CapturedUc, AreSentAsTheKernelSendsThem) { send_all(packets_of("uc")); }

class CapturedUd : public CapturedMessages, public ::testing::WithParamInterface<const char*> {
 protected:
  CapturedUd() : CapturedMessages(Type::kUd) {}
};

TEST_P(CapturedUd, AreTaken) {
  auto packets = packets_of(GetParam());
  receive_all(packets);
}
TEST_P(CapturedUd, AreSentAsTheKernelSendsThem) { send_all(packets_of(GetParam())); }

INSTANTIATE_TEST_SUITE_P(Files, CapturedUd, ::testing::Values("ud", "ud_v6"));

}  // namespace
}  // namespace uroce::qp::testing
