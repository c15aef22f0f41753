// A service that says, and writes into its memory, whatever it likes, to the port of a program. This thread
// is the poller.
#include <gtest/gtest.h>

#include <cerrno>

#include "drivers/port/host/host.h"
#include "tests/support/soon.h"
#include "tests/unit/host/fake_service.h"
#include "tests/unit/host/random_messages.h"
#include "wire/destination.h"
#include "wire/frame.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr uint32_t kUnit = 1u << host::kBlockBits;
constexpr NumberBlock kOther{16 * kUnit, 2 * kUnit};
constexpr QpNumber kToOther{16 * kUnit + 5};

/// A program's port, and the service's end of it.
class HostilePort {
 public:
  HostilePort() {
    auto opened = drivers::open_host({.devargs = "host,socket=" + service_.path()});
    EXPECT_TRUE(opened) << (opened ? "" : opened.error().message);
    port_ = std::move(*opened);
    conversation_ = service_.take();
    receive();  // what the poller is told first: the service
  }

  [[nodiscard]] Conversation& conversation() { return *conversation_; }
  std::unique_ptr<Conversation> take_conversation() { return std::move(conversation_); }
  [[nodiscard]] port::Port& port() { return *port_; }
  [[nodiscard]] port::PortQueue& queue() { return port_->queue(0); }
  /// The service ends the conversation, and takes up the next one.
  void begin_anew() {
    conversation_.reset();
    ASSERT_TRUE(soon([&] {
      receive();
      return service_.conversations() > 1 && port_->link_up();
    }));
    conversation_ = service_.take();
  }

  /// Sends a frame; false: there is no buffer.
  bool send(QpNumber to, bool on_host) {
    port::TxFrame frame;
    if (queue().allocate({&frame, 1}) != 1) return false;
    const wire::FrameTemplate where(
        {.source = Gid::from_ipv4({192, 0, 2, 1}), .destination = Gid::from_ipv4({192, 0, 2, 1})});
    wire::Headers headers;
    headers.bth.opcode = wire::Opcode::make(wire::Service::kRc, wire::Operation::kSendOnly);
    headers.bth.destination = to;
    wire::write_headers({frame.data, frame.capacity}, where, headers, 4);
    frame.length = wire::finish_frame({frame.data, frame.capacity}, where, headers.bth.opcode, 4);
    frame.on_host = on_host;
    EXPECT_EQ(queue().transmit({&frame, 1}), 1);
    return true;
  }

  /// How many frames there were. All of their bytes can be read.
  size_t receive() {
    port::RxFrame frames[32];
    size_t received = 0;
    while (const uint16_t count = queue().receive(frames)) {
      for (const port::RxFrame& frame : std::span(frames).first(count)) {
        EXPECT_GE(frame.length, host::kFrameBytesMin);
        EXPECT_LE(frame.length, host::kFrameBytes);
        uint64_t sum = 0;
        for (const std::byte byte : std::span(frame.data, frame.length)) sum += static_cast<uint64_t>(byte);
        EXPECT_LE(sum, 255u * host::kFrameBytes);
      }
      queue().release(std::span(frames).first(count));
      received += count;
    }
    return received;
  }

  /// The request that a frame to `to` causes.
  Message asked_for(QpNumber to) {
    send(to, true);
    const auto asked = conversation().receive(MessageType::kIntroduce);
    EXPECT_TRUE(asked);
    return asked ? asked->message : Message();
  }
  /// What waits for an introduction is lost: it has failed.
  bool loses_what_waits(uint64_t dropped_before) {
    return soon([&] {
      receive();
      return queue().dropped() > dropped_before;
    });
  }

 private:
  FakeService service_{attach_and_leave};
  std::unique_ptr<port::Port> port_;
  std::unique_ptr<Conversation> conversation_;
};

Message introduced(uint32_t request, uint32_t channel = 3) {
  return {.type = MessageType::kIntroduced,
          .request = request,
          .number = kOther.first,
          .count = kOther.count,
          .channel = channel};
}

TEST(HostileService, IntroductionsThatCannotBe) {
  const size_t descriptors = open_descriptors();
  {
    HostilePort program;
    const SharedFrames other(host::kProgramMemory);
    const SharedFrames service(host::kServiceMemory);
    const auto expect_lost = [&](const char* what, const std::function<void(Message&)>& spoil,
                                 const std::vector<int>& with) {
      const uint64_t dropped = program.queue().dropped();
      Message answer = introduced(program.asked_for(kToOther).request);
      spoil(answer);
      ASSERT_TRUE(program.conversation().send(answer, with));
      EXPECT_TRUE(program.loses_what_waits(dropped)) << what;
    };
    const std::vector sound{other.descriptor()};
    expect_lost("no memory", [](Message&) {}, {});
    expect_lost("memory of another kind", [](Message&) {}, {service.descriptor()});
    expect_lost(
        "no such channel", [](Message& m) { m.channel = host::kProgramMemory.channels; }, sound);
    expect_lost(
        "no such channel", [](Message& m) { m.channel = UINT32_MAX; }, sound);
    expect_lost(
        "no numbers", [](Message& m) { m.count = 0; }, sound);
    expect_lost(
        "numbers of the service", [](Message& m) { m.number = 0; }, sound);
    expect_lost(
        "the program's own", [](Message& m) { m.number = kGivenNumbers.first; }, sound);
    expect_lost(
        "more, with the program's own", [](Message& m) { m.number = m.count = 8 * kUnit; }, sound);
    expect_lost(
        "not those that were asked for", [](Message& m) { m.number = 32 * kUnit; }, sound);
    expect_lost(
        "not aligned", [](Message& m) { m.number += 1; }, sound);
    expect_lost(
        "beyond 24 bits", [](Message& m) { m.number = UINT32_MAX - kOther.count + 1; }, sound);
    expect_lost("refused",
                [](Message& m) { m = {.type = MessageType::kDone, .request = m.request, .error = 1234567}; },
                {});
    // One that nothing has asked for, then the right one.
    const Message right = introduced(program.asked_for(kToOther).request);
    Message wrong = right;
    wrong.request += 1000;
    ASSERT_TRUE(program.conversation().send(wrong, sound));
    ASSERT_TRUE(program.conversation().send(right, sound));
    host::Datagram confirmed;
    do {
      auto received = program.conversation().receive(MessageType::kConfirm);
      ASSERT_TRUE(received) << "of those before it confirms each that it asked for";
      confirmed = std::move(*received);
    } while (confirmed.message.request != right.request);
    const auto& ring = *host::MemoryLayout(host::kProgramMemory).ring(other.data(), 3);
    EXPECT_EQ(ring.load(), 0u);
    const uint64_t dropped = program.queue().dropped();
    ASSERT_TRUE(program.conversation().send({.type = MessageType::kPrograms, .count = 5}));
    ASSERT_TRUE(soon([&] { return program.port().shared_device()->programs() == 5; }));
    program.receive();
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(program.send(kToOther, true));
    EXPECT_EQ(program.queue().dropped(), dropped);
  }
  EXPECT_EQ(open_descriptors(), descriptors);
}

TEST(HostileService, AProgramThatTakesTheNumbersOfOneThatHasGone) {
  HostilePort program;
  const SharedFrames first(host::kProgramMemory);
  const SharedFrames second(host::kProgramMemory);
  ASSERT_TRUE(
      program.conversation().send(introduced(program.asked_for(kToOther).request), {first.descriptor()}));
  ASSERT_TRUE(soon([&] {
    program.receive();
    return program.queue().has_room(kToOther);
  }));
  // Its end was not told: half of its numbers are another's.
  Message introduction = introduced(77);
  introduction.type = MessageType::kIntroduction;
  introduction.count = kUnit;
  ASSERT_TRUE(program.conversation().send(introduction, {second.descriptor()}));
  const auto found = program.conversation().receive(MessageType::kFound);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->message.error, 0);
  program.receive();
  // No program has the other half: the service is asked for it.
  const Message asked = program.asked_for({kOther.first + kUnit});
  EXPECT_EQ(asked.type, MessageType::kIntroduce);
  EXPECT_EQ(asked.number, kOther.first + kUnit);
}

TEST(HostileService, OneThatBreaksTheFormatHoldsNothingUp) {
  HostilePort program;
  const host::MemoryLayout layout(host::kServiceMemory);
  auto& consumed = layout.consumed(program.conversation().memory().data(), 0);
  while (program.queue().has_room(std::nullopt)) ASSERT_TRUE(program.send({9}, false));
  consumed.count.store(0x8000'0000);
  EXPECT_TRUE(soon([&] {
    program.receive();
    return program.queue().has_room(std::nullopt);
  })) << "queue pairs would wait for ever";
  const uint64_t dropped = program.queue().dropped();
  ASSERT_TRUE(program.send({9}, false));
  EXPECT_EQ(program.queue().dropped(), dropped + 1);
}

/// The program ends all the same: neither what the poller is to be told nor what is told at once takes all of
/// the reader's time.
TEST(HostileService, AFloodOfMessages) {
  for (const MessageType type : {MessageType::kGone, MessageType::kPrograms}) {
    auto program = std::make_unique<HostilePort>();
    const auto conversation = program->take_conversation();
    std::thread flood([&] {
      while (conversation->send({.type = type, .number = kOther.first, .count = kOther.count})) continue;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    program.reset();
    flood.join();
  }
}

TEST(HostileService, RandomMessages) {
  const uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Random random(seed);
  const size_t descriptors = open_descriptors();
  for (int round = 0; round < 60; ++round) {
    HostilePort program;
    const SharedFrames other(host::kProgramMemory);
    for (int step = 0; step < 60; ++step) {
      Message message = random_message(random);
      if (random.chance(1, 3)) message.type = MessageType::kIntroduced;
      if (random.chance(1, 3)) message.type = MessageType::kIntroduction;
      program.conversation().send(message,
                                  random_descriptors(random, program.conversation(), other.descriptor()));
      for (uint64_t left = random.below(3); left > 0; --left)
        program.send({static_cast<uint32_t>(random.below(64)) << host::kBlockBits}, random.chance(3, 4));
      if (random.chance(1, 2)) program.receive();
    }
    if (random.chance(1, 4)) program.begin_anew();
    program.receive();
  }
  EXPECT_TRUE(soon([&] { return open_descriptors() == descriptors; }));
}

TEST(HostileService, RandomMemory) {
  const uint64_t seed = 20261125;
  SCOPED_TRACE(seed);
  Random random(seed);
  const size_t descriptors = open_descriptors();
  size_t received = 0;
  for (int round = 0; round < 20; ++round) {
    HostilePort program;
    const SharedFrames other(host::kProgramMemory);
    ASSERT_TRUE(
        program.conversation().send(introduced(program.asked_for(kToOther).request), {other.descriptor()}));
    for (uint32_t step = 0; step < 2000; ++step) {
      write_anything(random, program.conversation().memory().data(), host::kServiceMemory, 0, step);
      write_anything(random, other.data(), host::kProgramMemory, 3, step);
      if (random.chance(1, 2)) program.send(kToOther, random.chance(1, 2));
      if (random.chance(1, 8)) received += program.receive();
    }
    received += program.receive();
  }
  EXPECT_GT(received, 1000u);
  EXPECT_TRUE(soon([&] { return open_descriptors() == descriptors; }));
}

}  // namespace
}  // namespace uroce::testing
