// The agent takes the place of either host in the Linux kernel's conversations: it hears what the other host
// sent, its consumer decides as the kernel's did, and what it sends is byte for byte what was sent then, but
// for the numbers that each end chooses for itself.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "cm/agent.h"
#include "reader.h"
#include "wire/packet.h"

namespace uroce::cm {
namespace {

using Bytes = std::array<std::byte, wire::kMadBytes>;

struct Datagram {
  Gid from;
  Gid to;
  wire::CmMad mad;
};
using Conversation = std::vector<Datagram>;

std::map<std::string, Conversation> captured() {
  std::map<std::string, Conversation> result;
  for (const auto& file : captures::files()) {
    for (const captures::Frame& frame : captures::frames(file)) {
      wire::Packet packet;
      if (wire::parse_frame(frame, packet).result != wire::ParseResult::kRoce) continue;
      if (packet.headers.bth.destination != QpNumber{1}) continue;
      wire::CmMad mad;
      EXPECT_EQ(wire::parse_cm(packet.payload, mad), wire::CmParse::kOk);
      result[file.stem()].push_back({packet.source, packet.destination, mad});
    }
  }
  return result;
}

Bytes bytes_of(const wire::CmMad& mad) {
  Bytes bytes;
  wire::write_cm(bytes.data(), mad);
  return bytes;
}

template <typename Message>
constexpr bool kOpens = std::is_same_v<Message, wire::CmReq> || std::is_same_v<Message, wire::CmDreq> ||
                        std::is_same_v<Message, wire::CmSidrReq>;

bool opens(const wire::CmMessage& message) {
  return std::visit([]<typename Message>(const Message&) { return kOpens<Message>; }, message);
}

bool is_dreq(const Datagram& one) { return std::holds_alternative<wire::CmDreq>(one.mad.message); }

/// One host of a conversation, played by the agent.
class Part final : Consumer, MadSink {
 public:
  explicit Part(Gid self)
      : self_(self),
        agent_({.connections_max = 16, .listeners_max = 4, .first_number = 0x1000'0000, .hold_requests = {}},
               *this) {}

  void play(Conversation conversation) {
    // What was on its way when the host spoke it had not heard.
    for (size_t i = 1; i < conversation.size(); ++i) {
      if (conversation[i].from == self_ && is_dreq(conversation[i - 1]) && is_dreq(conversation[i]))
        std::swap(conversation[i - 1], conversation[i]);
    }
    for (size_t i = 0; i < conversation.size(); ++i) {
      SCOPED_TRACE("datagram " + std::to_string(i));
      const Datagram& one = conversation[i];
      if (one.from == self_)
        say(one);
      else
        hear(one, i + 1 < conversation.size() ? &conversation[i + 1] : nullptr);
    }
    EXPECT_TRUE(sent_.empty()) << "it said more than the kernel did";
  }

 private:
  void on_event(const Event& event) override {
    if (event.kind != EventKind::kTimewaitEnded) id_ = event.id;
  }
  Sent send(const Address&, const wire::CmMad& mad) override {
    sent_.push_back(mad);
    return Sent::kYes;
  }

  /// With our numbers in place of those that the kernel's host had.
  void hear(Datagram datagram, const Datagram* answer) {
    // There is a listener where the kernel had one.
    const auto listen = [&](ServiceId service) {
      const bool refused = answer != nullptr && std::holds_alternative<wire::CmRej>(answer->mad.message);
      if (!refused) static_cast<void>(agent_.listen(service, self_, 4, 0));  // or it is there already
    };
    if (const auto* req = std::get_if<wire::CmReq>(&datagram.mad.message)) listen(req->service);
    if (const auto* req = std::get_if<wire::CmSidrReq>(&datagram.mad.message)) listen(req->service);
    std::visit(
        [&]<typename Message>(Message& message) {
          if constexpr (requires { message.remote; }) {
            message.remote = ours(message.remote);
          } else if constexpr (std::is_same_v<Message, wire::CmSidrRep>) {
            message.request = ours(message.request);
          }
        },
        datagram.mad.message);
    if (const auto it = transactions_.find(datagram.mad.transaction_id); it != transactions_.end())
      datagram.mad.transaction_id = it->second;
    agent_.receive({.local = self_, .remote = datagram.from}, bytes_of(datagram.mad), now_, *this);
    pump();
  }

  void say(const Datagram& datagram) {
    decide(datagram);
    pump();
    ASSERT_FALSE(sent_.empty()) << "it says nothing";
    wire::CmMad said = sent_.front();
    sent_.erase(sent_.begin());
    ASSERT_EQ(said.message.index(), datagram.mad.message.index());
    if (opens(said.message)) transactions_[datagram.mad.transaction_id] = said.transaction_id;
    learn(said.message, datagram.mad.message);
    if (const auto it = transactions_.find(datagram.mad.transaction_id); it != transactions_.end()) {
      EXPECT_EQ(said.transaction_id, it->second);
      said.transaction_id = it->first;
    }
    EXPECT_EQ(bytes_of(said), bytes_of(datagram.mad));
  }

  /// What the kernel's consumer must have done for that to be sent.
  void decide(const Datagram& datagram) {
    const Address way{.local = self_, .remote = datagram.to};
    const wire::CmMad& mad = datagram.mad;
    if (const auto* req = std::get_if<wire::CmReq>(&mad.message)) {
      id_ = agent_.connect(way, *req, 0, mad.ece_options).value();
    } else if (const auto* rep = std::get_if<wire::CmRep>(&mad.message)) {
      EXPECT_EQ(agent_.reply(id_, *rep, 0, mad.ece_options), 0);
    } else if (const auto* rtu = std::get_if<wire::CmRtu>(&mad.message)) {
      EXPECT_EQ(agent_.ready_to_use(ours(rtu->local), rtu->private_data), 0);
    } else if (const auto* dreq = std::get_if<wire::CmDreq>(&mad.message)) {
      EXPECT_EQ(agent_.disconnect(ours(dreq->local), dreq->private_data), 0);
    } else if (const auto* service = std::get_if<wire::CmSidrReq>(&mad.message)) {
      id_ = agent_.resolve_service(way, *service, seconds(1), 1, 0).value();
    } else if (const auto* answer = std::get_if<wire::CmSidrRep>(&mad.message)) {
      EXPECT_EQ(agent_.answer_service(id_, *answer), 0);
    }
    // REJ of a service without a listener, and DREP, are the agent's own.
  }

  void pump() { agent_.pump(now_, *this); }

  CommId ours(CommId theirs) const {
    const auto it = ids_.find(theirs.value);
    return it != ids_.end() ? it->second : theirs;
  }

  /// Which number of ours stands for which of the kernel's; `said` gets the kernel's.
  void learn(wire::CmMessage& said, const wire::CmMessage& then) {
    std::visit(
        [&]<typename Message>(Message& message) {
          const Message& kernels = std::get<Message>(then);
          if constexpr (requires { message.local; }) {
            if (message.local == CommId{}) return;
            ids_[kernels.local.value] = message.local;
            message.local = kernels.local;
          } else if constexpr (std::is_same_v<Message, wire::CmSidrReq>) {
            ids_[kernels.request.value] = message.request;
            message.request = kernels.request;
          }
        },
        said);
  }

  const Gid self_;
  Agent agent_;
  CommId id_;
  Instant now_{1'000'000};
  std::vector<wire::CmMad> sent_;
  std::map<uint32_t, CommId> ids_;
  std::map<uint64_t, uint64_t> transactions_;
};

TEST(Captured, EitherHostPlayedByTheAgent_ExpectTheSameBytes) {
  size_t conversations = 0;
  for (const auto& [file, conversation] : captured()) {
    for (const Gid& self : {conversation.front().from, conversation.front().to}) {
      SCOPED_TRACE(file + (self == conversation.front().from ? ", the active end" : ", the passive end"));
      Part(self).play(conversation);
      ++conversations;
    }
  }
  EXPECT_GE(conversations, 10u);
}

}  // namespace
}  // namespace uroce::cm
