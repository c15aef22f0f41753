// What `uroce status` is told of programs.
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <nlohmann/json.hpp>

#include "host/memory_format.h"
#include "service/traffic_meter.h"
#include "tests/support/soon.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using service::ClientSession;
using service::TrafficMeter;

nlohmann::json program_of(const std::string& path) {
  return nlohmann::json::parse(FakeProgram(path).status())["devices"][0]["programs"][0];
}

host::Usage& usage_of(FakeProgram& program) {
  return host::MemoryLayout(host::kProgramMemory).usage(program.memory().bytes().data());
}

void show_queue_pairs(FakeProgram& program, uint32_t count) {
  usage_of(program).queue_pairs.store(count, std::memory_order_relaxed);
}

TEST(Status, TellsHowManyQueuePairsAProgramHas) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  EXPECT_EQ(program_of(service.path())["queue_pairs"], 0);
  show_queue_pairs(a, 17);
  EXPECT_EQ(program_of(service.path())["queue_pairs"], 17);
  // Receive more than the program has numbers. Expect: no more than that.
  show_queue_pairs(a, UINT32_MAX);
  EXPECT_EQ(program_of(service.path())["queue_pairs"], 1u << host::kBlockBits);
}

TEST(Status, TellsWhatAProgramsPortHasDropped) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  EXPECT_EQ(program_of(service.path())["port_dropped"], 0);
  usage_of(a).port_dropped.store(23, std::memory_order_relaxed);
  EXPECT_EQ(program_of(service.path())["port_dropped"], 23);
}

TEST(Status, TellsHowMuchAProgramSends) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  EXPECT_EQ(program_of(service.path())["frames_sent_per_s"], 0);
  const Bytes frame = rc_frame(to_peer(), {a.number()});
  EXPECT_TRUE(soon([&] {
    a.memory().channel().reclaim();
    a.memory().send(frame);
    const nlohmann::json program = program_of(service.path());
    return program["frames_sent_per_s"] > 0 && program["bytes_sent_per_s"] >= frame.size();
  }));
  EXPECT_EQ(program_of(service.path())["frames_received_per_s"], 0);
}

TEST(Status, TellsWhoseAQueuePairNumberIs) {
  RunningService service;
  FakeProgram a(service.path());
  a.attach();
  FakeProgram visitor(service.path());
  host::Message question = hello(host::MessageType::kWhose);
  question.address = kDeviceAddress;
  question.number = a.number() + 5;
  const host::Message owner = visitor.ask(question);
  EXPECT_EQ(owner.type, host::MessageType::kOwner);
  EXPECT_EQ(owner.number, a.number());
  EXPECT_EQ(owner.count, 1u << host::kBlockBits);
  EXPECT_EQ(owner.id, getuid());
  // Receive a number of no program, and an address of no device. Expect: ENOENT.
  question.number = 1;
  EXPECT_EQ(visitor.ask(question).error, ENOENT);
  question.number = a.number();
  question.address = kPeerAddress;
  EXPECT_EQ(visitor.ask(question).error, ENOENT);
}

TEST(TrafficMeter, CountsPerSecond) {
  const Instant begin{1'000'000'000};
  TrafficMeter meter(begin);
  meter.look({.frames_from = 10, .bytes_from = 1000, .frames_to = 4, .bytes_to = 400}, begin + seconds(1));
  EXPECT_EQ(meter.rates().frames_from, 10u);
  EXPECT_EQ(meter.rates().bytes_to, 400u);
  // Receive a late look. Expect: what was between the two, over the time that they are apart.
  meter.look({.frames_from = 30, .bytes_from = 1000, .frames_to = 5, .bytes_to = 500}, begin + seconds(3));
  EXPECT_EQ(meter.rates().frames_from, 10u);
  EXPECT_EQ(meter.rates().bytes_from, 0u);
  EXPECT_EQ(meter.rates().frames_to, 1u);
  EXPECT_EQ(meter.rates().bytes_to, 50u);
}

TEST(TrafficMeter, ALookThatComesAtOnceSaysNothing) {
  const Instant begin{1'000'000'000};
  TrafficMeter meter(begin);
  meter.look({.frames_from = 10}, begin + milliseconds(1));
  EXPECT_EQ(meter.rates().frames_from, 0u);
  meter.look({.frames_from = 10}, begin + seconds(1));
  EXPECT_EQ(meter.rates().frames_from, 10u);
}

}  // namespace
}  // namespace uroce::testing
