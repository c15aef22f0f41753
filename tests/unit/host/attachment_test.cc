// A program's side of the conversation with the service: what it hears, and that it outlives a service.
#include "drivers/port/host/attachment.h"

#include <gtest/gtest.h>

#include <cerrno>

#include "host/own_memory.h"
#include "tests/support/soon.h"
#include "tests/unit/host/fake_service.h"

namespace uroce::testing {
namespace {

using drivers::Attachment;
using host::Message;
using host::MessageType;

/// What a program was told, as lines.
class Listener final : public host::SharedDeviceListener {
 public:
  explicit Listener(const host::SharedDevice& device) : device_(device) {}

  void resolved(const host::Neighbour& neighbour, const Gid& hop, MacAddress mac) override {
    note("resolved " + text_of(neighbour) + " by " + last(hop) + " at " + last(mac));
  }
  void resolution_failed(const host::Neighbour& neighbour, int error) override {
    note("failed " + text_of(neighbour) + (error == EHOSTUNREACH ? ": no way" : ": no answer"));
  }
  void forget_neighbours(std::optional<Gid> hop, std::optional<MacAddress> mac) override {
    note("forget " + (hop ? last(*hop) : "all") + (mac ? " unless at " + last(*mac) : ""));
  }
  void address_added(const host::SharedAddress& address) override {
    note("added " + last(address.address) + "/" + std::to_string(address.prefix_bits));
  }
  void address_removed(const Gid& address) override { note("removed " + last(address)); }
  void programs_changed() override { note("programs " + std::to_string(device_.programs())); }
  int fault_added(const host::SharedFault& fault) override {
    note("fault " + std::to_string(fault.id) + ": " + fault.rule);
    return fault.rule == "refused" ? ENOENT : 0;
  }
  void fault_removed(uint32_t id) override { note("fault " + std::to_string(id) + " removed"); }
  void link_changed() override { note("link of " + std::to_string(device_.link_mtu())); }

  /// The next line, waited for.
  std::string next() {
    std::string line;
    const bool any = soon([&] {
      const std::lock_guard guard(mutex_);
      if (lines_.empty()) return false;
      line = lines_.front();
      lines_.erase(lines_.begin());
      return true;
    });
    return any ? line : "nothing";
  }

 private:
  template <typename Address>
  static std::string last(const Address& address) {
    return std::to_string(address.bytes.back());
  }
  static std::string text_of(const host::Neighbour& neighbour) {
    return last(neighbour.address) + (neighbour.vlan != 0 ? "@" + std::to_string(neighbour.vlan) : "");
  }
  void note(std::string line) {
    const std::lock_guard guard(mutex_);
    lines_.push_back(std::move(line));
  }

  const host::SharedDevice& device_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

/// A program that is attached; this thread is the poller of its port.
struct AttachmentTest : ::testing::Test {
  AttachmentTest() {
    auto opened = Attachment::open({.socket = service.path(), .device = "uroce0", .numbers = 100});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    attachment = std::move(*opened);
    conversation = service.take();
    own.emplace(attachment->memory(), host::kProgramMemory);
    EXPECT_TRUE(attachment->begin(*own));
    attachment->start(listener.emplace(*attachment));
  }
  ~AttachmentTest() override {
    attachment->end();
    service_peer.reset();
  }

  /// Takes what the reader tells the poller, as the queue of a port does with a service that has gone.
  void poll() {
    while (const auto change = attachment->exchange().take_change()) {
      if (change->kind != drivers::PeerChange::Kind::kService) continue;
      if (service_peer != nullptr) {
        service_peer->channel.reset();
        attachment->exchange().retire(std::move(service_peer));
      }
      service_peer = std::move(change->peer);
    }
  }

  FakeService service{attach_and_leave};
  std::unique_ptr<drivers::Peer> service_peer;
  std::unique_ptr<Attachment> attachment;
  std::unique_ptr<Conversation> conversation;
  std::optional<host::OwnMemory> own;
  std::optional<Listener> listener;
};

const Gid kFar = Gid::from_ipv4({192, 0, 2, 7});
const Gid kRouter = Gid::from_ipv4({192, 0, 2, 254});

TEST_F(AttachmentTest, IsWhatTheServiceSays) {
  EXPECT_EQ(attachment->numbers(), kGivenNumbers);
  EXPECT_EQ(attachment->mac(), kGivenMac);
  EXPECT_EQ(attachment->link_mtu(), kGivenMtu);
  EXPECT_TRUE(attachment->link_up());
  EXPECT_EQ(attachment->programs(), 1u);
  EXPECT_EQ(attachment->partition_keys(), std::vector<uint16_t>{0xFFFF});
  ASSERT_EQ(attachment->addresses().size(), 1u);
  EXPECT_EQ(attachment->addresses()[0].address, kGivenAddress);
}

TEST_F(AttachmentTest, HearsOfTheLink) {
  ASSERT_TRUE(conversation->send({.type = MessageType::kLink, .mtu = 1500, .up = 0}));
  EXPECT_EQ(listener->next(), "link of 1500");
  EXPECT_FALSE(attachment->link_up());
  ASSERT_TRUE(conversation->send({.type = MessageType::kLink, .mtu = 9000, .up = 1}));
  EXPECT_EQ(listener->next(), "link of 9000");
  EXPECT_TRUE(attachment->link_up());
}

TEST_F(AttachmentTest, HearsOfFaultsAndSaysWhetherTheyApply) {
  Message fault{.type = MessageType::kFault, .number = 3};
  host::set_text(fault.text, "loss=1%");
  ASSERT_TRUE(conversation->send(fault));
  EXPECT_EQ(listener->next(), "fault 3: loss=1%");
  auto answer = conversation->receive(MessageType::kFaultTaken);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message.number, 3u);
  EXPECT_EQ(answer->message.error, 0);
  fault.number = 4;
  host::set_text(fault.text, "refused");
  ASSERT_TRUE(conversation->send(fault));
  EXPECT_EQ(listener->next(), "fault 4: refused");
  answer = conversation->receive(MessageType::kFaultTaken);
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->message.error, ENOENT);
  ASSERT_TRUE(conversation->send({.type = MessageType::kFaultRemoved, .number = 3}));
  EXPECT_EQ(listener->next(), "fault 3 removed");
}

TEST_F(AttachmentTest, HearsOfNeighbours) {
  attachment->resolve({kFar, 5});
  const auto asked = conversation->receive(MessageType::kResolve);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->message.address, kFar);
  EXPECT_EQ(asked->message.vlan, 5);
  ASSERT_TRUE(conversation->send(
      {.type = MessageType::kResolved, .address = kFar, .hop = kRouter, .mac = {{2, 0, 0, 0, 0, 9}}}));
  EXPECT_EQ(listener->next(), "resolved 7 by 254 at 9");
  ASSERT_TRUE(conversation->send({.type = MessageType::kResolved, .error = EHOSTUNREACH, .address = kFar}));
  EXPECT_EQ(listener->next(), "failed 7: no way");
  ASSERT_TRUE(
      conversation->send({.type = MessageType::kResolved, .error = ETIMEDOUT, .vlan = 5, .address = kFar}));
  EXPECT_EQ(listener->next(), "failed 7@5: no answer");
}

TEST_F(AttachmentTest, ForgetsNeighbours) {
  ASSERT_TRUE(conversation->send({.type = MessageType::kForgetNeighbour}));
  EXPECT_EQ(listener->next(), "forget all");
  ASSERT_TRUE(conversation->send({.type = MessageType::kForgetNeighbour, .hop = kRouter}));
  EXPECT_EQ(listener->next(), "forget 254");
  ASSERT_TRUE(conversation->send(
      {.type = MessageType::kForgetNeighbour, .hop = kRouter, .mac = {{2, 0, 0, 0, 0, 8}}}));
  EXPECT_EQ(listener->next(), "forget 254 unless at 8");
}

TEST_F(AttachmentTest, HearsOfAddressesAndPrograms) {
  ASSERT_TRUE(conversation->send(address_message(kFar)));
  EXPECT_EQ(listener->next(), "added 7/24");
  EXPECT_EQ(attachment->addresses().size(), 2u);
  ASSERT_TRUE(conversation->send({.type = MessageType::kAddressRemoved, .address = kGivenAddress}));
  EXPECT_EQ(listener->next(), "removed 1");
  ASSERT_EQ(attachment->addresses().size(), 1u);
  EXPECT_EQ(attachment->addresses()[0].address, kFar);
  ASSERT_TRUE(conversation->send({.type = MessageType::kPrograms, .count = 3}));
  EXPECT_EQ(listener->next(), "programs 3");
}

TEST_F(AttachmentTest, AddressesThatThereCannotBeAreNotTakenUp) {
  Message message = address_message(Gid{});
  ASSERT_TRUE(conversation->send(message));
  message = address_message(kFar);
  message.prefix_bits = 129;
  ASSERT_TRUE(conversation->send(message));
  message = address_message(kFar);
  message.vlan = 4095;
  ASSERT_TRUE(conversation->send(message));
  // More than a table of GIDs has room for.
  for (int i = 0; i < 1000; ++i)
    ASSERT_TRUE(conversation->send(
        address_message(Gid::from_ipv4({10, 0, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i)}))));
  ASSERT_TRUE(conversation->send({.type = MessageType::kPrograms, .count = 77}));
  EXPECT_EQ(listener->next(), "added 0/24");
  while (listener->next() != "programs 77") continue;
  EXPECT_EQ(attachment->addresses().size(), 256u);
}

/// The answer to a bind, whatever it is.
Result<uint16_t> bind(Attachment& attachment, Conversation& conversation, Message answer) {
  std::thread answering([&] {
    const auto asked = conversation.receive(MessageType::kBind);
    if (!asked) return;
    answer.request = asked->message.request;
    conversation.send(answer);
  });
  auto bound = attachment.bind(1, {});
  answering.join();
  return bound;
}

TEST_F(AttachmentTest, RefusalsAreOneLineAndAnErrno) {
  Message refusal{.type = MessageType::kDone, .error = EADDRINUSE};
  host::set_text(refusal.text, "two\nlines \x1b[2J");
  auto bound = bind(*attachment, *conversation, refusal);
  ASSERT_FALSE(bound);
  EXPECT_EQ(bound.error().code, EADDRINUSE);
  EXPECT_EQ(bound.error().message, R"(two\x0alines \x1b[2J)");
  for (const int error : {-5, 100'000}) {
    bound = bind(*attachment, *conversation, {.type = MessageType::kDone, .error = error});
    ASSERT_FALSE(bound);
    EXPECT_EQ(bound.error().code, EPROTO);
    EXPECT_FALSE(bound.error().message.empty());
  }
}

TEST_F(AttachmentTest, ComesBackWithWhatItHad) {
  const auto bound = bind(*attachment, *conversation, {.type = MessageType::kDone, .port = 7174});
  ASSERT_TRUE(bound);
  EXPECT_EQ(*bound, 7174);
  poll();
  conversation.reset();
  EXPECT_EQ(listener->next(), "link of 4200") << "the link is down";
  EXPECT_FALSE(attachment->link_up());
  EXPECT_EQ(attachment->bind(2, {}).error().code, ENETDOWN);
  ASSERT_TRUE(soon([&] {
    poll();
    return attachment->link_up();
  }));
  EXPECT_EQ(listener->next(), "link of 4200") << "the link is up";
  conversation = service.take();
  ASSERT_NE(conversation, nullptr);
  const auto again = conversation->receive(MessageType::kBind);
  ASSERT_TRUE(again);
  EXPECT_EQ(again->message.port, 7174) << "the port that it had got";
  EXPECT_EQ(again->message.id, 1u);
}

/// Otherwise the ring of the channel would begin anew under a poller that has yet to free its frames.
TEST_F(AttachmentTest, ComesBackWhenThePollerHasGivenTheOldChannelBack) {
  poll();
  ASSERT_NE(service_peer, nullptr);
  const uint32_t before = own->free_count();
  for (int i = 0; i < 10; ++i) service_peer->channel->send(own->take(), 100, true);
  conversation.reset();
  EXPECT_EQ(listener->next(), "link of 4200");
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_EQ(service.conversations(), 1) << "the poller still has the old channel";
  ASSERT_TRUE(soon([&] {
    poll();
    return attachment->link_up();
  }));
  EXPECT_EQ(own->free_count(), before);
  std::vector<bool> seen(host::kProgramMemory.frames);
  for (uint32_t i = 0; i < before; ++i) {
    const uint32_t frame = own->take();
    EXPECT_FALSE(seen.at(frame)) << "frame " << frame << " is free twice";
    seen.at(frame) = true;
  }
}

TEST(AttachmentReturn, OtherNumbersAreRefused) {
  FakeService service([](Conversation& conversation, int index) {
    Message attached = attached_answer();
    if (index == 1) attached.number += attached.count;
    return conversation.attach(attached) && index != 1;
  });
  auto opened = Attachment::open({.socket = service.path(), .device = "uroce0", .numbers = 100});
  ASSERT_TRUE(opened);
  auto& attachment = **opened;
  host::OwnMemory own(attachment.memory(), host::kProgramMemory);
  ASSERT_TRUE(attachment.begin(own));
  service.take().reset();
  std::unique_ptr<drivers::Peer> peer;
  EXPECT_TRUE(soon([&] {
    while (const auto change = attachment.exchange().take_change()) {
      if (peer != nullptr) {
        peer->channel.reset();
        attachment.exchange().retire(std::move(peer));
      }
      peer = std::move(change->peer);
    }
    return service.conversations() == 3 && attachment.link_up();
  }));
  EXPECT_EQ(attachment.numbers(), kGivenNumbers);
  attachment.end();
}

}  // namespace
}  // namespace uroce::testing
