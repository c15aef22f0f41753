// What hosts that never get as far as Fabrics Connect, and hosts that take no responses, can do to others.
#include <chrono>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "base/values/random.h"
#include "exported.h"
#include "tests/nvmf/rdma_stranger.h"

namespace uroce::testing {
namespace {

using nvmf::RdmaEvent;
using nvmf::StatusCode;
using Strangers = Exported;

/// A host can connect, write and read.
void expect_service(RdmaSession::Options options) {
  RdmaSession session(std::move(options));
  RdmaHostQueue& queue = session.connect_io(1);
  fill(queue.memory(0).first(65536), 3);
  const auto written = queue.run(io(queue, command::kWrite, kFile, 0, 65536));
  ASSERT_TRUE(written);
  EXPECT_EQ(code_of(*written), StatusCode::kSuccess);
  const auto read = queue.run(io(queue, command::kRead, kFile, 0, 65536));
  ASSERT_TRUE(read);
  EXPECT_EQ(code_of(*read), StatusCode::kSuccess);
  EXPECT_TRUE(is_filled(queue.memory(0).first(65536), 3));
}

/// UROCE_REQUESTS=N: so many requests.
uint64_t requests() {
  const char* const text = std::getenv("UROCE_REQUESTS");
  return text == nullptr ? 400 : std::strtoull(text, nullptr, 0);
}

/// Until there were so many, or it is hopeless.
[[nodiscard]] bool wait_until(const auto& condition) {
  for (int i = 0; i < 6'000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return false;
}

TEST_F(Strangers, RequestsTakenBackAtAnyMoment_ExpectServiceForOthers) {
  for (const bool shared : {true, false}) {
    SCOPED_TRACE(shared ? "shared receives" : "receives of each queue");
    nvmf::RdmaOptions options;
    options.shared_receives = shared;
    open(options);
    Random random(1);
    RdmaStranger stranger;
    for (uint64_t i = 0; i < requests(); ++i) {
      stranger.request_queue(static_cast<uint16_t>(random.below(3)));
      // Before, while and after the target accepts.
      std::this_thread::sleep_for(std::chrono::microseconds(random.below(1200)));
      if (random.below(4) == 0 && stranger.wait_ms(5) == RdmaStranger::Answer::kAccepted) stranger.reject();
      stranger.withdraw();
    }
    expect_service(host());
    EXPECT_TRUE(comes_down_to(0));
    EXPECT_GT(count(RdmaEvent::kRequested), 0u);
  }
}

TEST_F(Strangers, RequestsThatAreNeverCompleted_ExpectFewToStayAndAnEndByOurClock) {
  open();
  std::deque<RdmaStranger> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.emplace_back().request_queue(0);
    ASSERT_EQ(strangers.back().wait_ms(60'000), RdmaStranger::Answer::kAccepted);
  }
  EXPECT_TRUE(comes_down_to(nvmf::RdmaOptions{}.pending_per_host));
  EXPECT_EQ(count(RdmaEvent::kEndedReplaced), 40 - nvmf::RdmaOptions{}.pending_per_host);
  expect_service(host());
  advance(seconds(nvmf::RdmaOptions{}.connect_s + 1));
  EXPECT_TRUE(comes_down_to(0));
  EXPECT_GT(count(RdmaEvent::kEndedHandshake), 0u);
}

TEST_F(Strangers, ConnectionsWithoutConnect_ExpectTheirEndAndLongerTimeForKnownHosts) {
  open();
  const auto limit = seconds(nvmf::RdmaOptions{}.connect_s + 1);
  {
    RdmaHostQueue silent({});
    // What the target has not heard of yet when its clock jumps, ends for other reasons.
    ASSERT_TRUE(wait_until([&] { return count(RdmaEvent::kEstablished) == 1; }));
    advance(limit);
    EXPECT_TRUE(wait_until([&] { return silent.has_ended(); }));
    EXPECT_TRUE(wait_until([&] { return count(RdmaEvent::kEndedNoConnect) == 1; }));
  }
  RdmaSession session(host());
  RdmaHostQueue io_queue({.qid = 1});
  ASSERT_TRUE(
      wait_until([&] { return count(RdmaEvent::kEstablished) == 3 && count(RdmaEvent::kConnected) == 1; }));
  advance(limit);
  RdmaSession other(host());
  const auto connected = session.run_connect(io_queue, 1, session.controller());
  ASSERT_TRUE(connected);
  EXPECT_EQ(code_of(*connected), StatusCode::kSuccess);
}

TEST_F(Strangers, ManyCommandsBeforeConnect_ExpectTheEnd) {
  open();
  RdmaHostQueue queue({});
  for (uint16_t cid = 0; cid < 9; ++cid) {
    nvmf::Command command = command::make(command::kFlush, 1);
    command.cid = cid;
    queue.send(command);
  }
  std::array<nvmf::Completion, 16> came;
  EXPECT_TRUE(wait_until([&] { return queue.poll(came), queue.has_ended(); }));
  EXPECT_TRUE(wait_until([&] { return count(RdmaEvent::kEndedProtocol) == 1; }));
}

TEST_F(Strangers, CapsulesBeforeConnectAndNoReceives_ExpectServiceForOthersAndTheEnd) {
  open();
  std::deque<RdmaHostQueue> attackers;
  for (int i = 0; i < 34; ++i) {
    RdmaHostQueue& queue = attackers.emplace_back(
        RdmaHostQueue::Options{.slot_bytes = 4096, .receives = 0, .ack_timeout = uint8_t{0}});
    for (uint16_t cid = 0; cid < 31; ++cid) {
      nvmf::Command command = command::make(command::kFlush, 1);
      command.cid = cid;
      queue.send(command);
    }
  }
  expect_service(host());
  // Those that sent too much end at once, and whatever is left by the clock.
  advance(seconds(nvmf::RdmaOptions{}.connect_s + 1));
  EXPECT_TRUE(comes_down_to(0));
}

nvmf::Command get_log(RdmaHostQueue& queue, uint16_t cid, uint32_t bytes) {
  nvmf::Command made = command::get_log_page(nvmf::LogPage::kDiscovery, bytes);
  made.cid = cid;
  made.sgl = queue.host_memory(cid, bytes);
  return made;
}

TEST_F(Strangers, DiscoveryThatTakesNoResponses_ExpectLargeReadsOfOthersAndTheEnd) {
  nvmf::RdmaOptions options;
  options.large_buffers = 32;  // fewer than the commands that hold on to one
  open(options);
  RdmaSession::Options discovery{.subsystem_nqn = std::string(nvmf::kDiscoveryNqn)};
  discovery.queue.entries = 128;
  discovery.queue.receives = 2;  // for Connect and the configuration
  RdmaSession attacker(discovery);
  for (uint16_t cid = 0; cid < 127; ++cid) attacker.admin().send(get_log(attacker.admin(), cid, 131072));
  RdmaSession victim(host());
  RdmaHostQueue& queue = victim.connect_io(1);
  for (int i = 0; i < 20; ++i) {
    const auto read = queue.run(io(queue, command::kRead, kFile, 0, 65536));
    ASSERT_TRUE(read);
    EXPECT_EQ(code_of(*read), StatusCode::kSuccess);
  }
  EXPECT_EQ(transport->report().size(), 3u);
  advance(seconds(nvmf::RdmaOptions{}.connect_s + 1));
  EXPECT_TRUE(comes_down_to(2));
  EXPECT_EQ(count(RdmaEvent::kEndedStalled), 1u);
}

TEST_F(Strangers, HostThatTakesNoResponses_ExpectItsEndByOurClockAndNoOtherLimit) {
  constexpr uint64_t kBesideService = 65536 / kBlockBytes;  // where expect_service() is not
  open();
  for (const uint8_t timeout : {uint8_t{0}, uint8_t{31}}) {
    RdmaSession::Options options = host(64);
    options.queue.ack_timeout = timeout;
    options.queue.receives = 2;  // for Connect and the configuration
    RdmaSession session(options);
    RdmaHostQueue& queue = session.connect_io(1);
    const uint64_t before = count(RdmaEvent::kEndedStalled);
    for (uint16_t cid = 0; cid < 63; ++cid)
      queue.send(
          io(queue, cid % 2 == 0 ? command::kRead : command::kWrite, kFile, kBesideService, 131072, cid));
    expect_service(host());
    advance(seconds(nvmf::RdmaOptions{}.stall_s + 1));
    EXPECT_TRUE(comes_down_to(1));
    EXPECT_EQ(count(RdmaEvent::kEndedStalled), before + 1);
  }
}

TEST_F(Strangers, HostWithoutAName_ExpectConnectWhereAnyHostIsAllowedOnly) {
  open();
  RdmaSession::Options unnamed = host();
  unnamed.host_nqn.clear();
  expect_service(unnamed);
  ASSERT_TRUE(target->set_hosts(kDisks, {"nqn.2014-08.org.nvmexpress:a"}, false).ok());
  EXPECT_THROW(RdmaSession{unnamed}, std::runtime_error);
  EXPECT_TRUE(wait_until([&] { return count(RdmaEvent::kConnectRefused) == 1; }));
}

TEST_F(Strangers, WhatHappens_ExpectLinesThatNameHostAndReason) {
  std::mutex mutex;
  std::string lines;
  nvmf::RdmaOptions options;
  options.log = [&](const nvmf::RdmaLogLine& line) {
    const std::lock_guard guard(mutex);
    lines.append(line.text).append("\n");
  };
  open(options);
  RdmaSession::Options named = host();
  named.host_nqn = "nqn.2014-08.org.nvmexpress:uuid:\x1b[31mred";
  { const RdmaSession session(named); }
  EXPECT_TRUE(comes_down_to(0));
  RdmaHostQueue::Options wrong;
  wrong.private_data = std::vector<std::byte>(56, std::byte{0xFF});
  EXPECT_THROW(RdmaHostQueue{wrong}, RdmaRefused);
  ASSERT_TRUE(wait_until([&] { return count(RdmaEvent::kRefusedFormat) == 1; }));
  transport->stop();
  const std::lock_guard guard(mutex);
  const size_t connected = lines.find(
      "192.0.2.1 queue 0 host nqn.2014-08.org.nvmexpress:uuid:\\x1b[31mred subsystem "
      "nqn.2026-11.example:disks: "
      "connected\n");
  EXPECT_NE(connected, std::string::npos) << lines;
  EXPECT_NE(lines.find("uuid:\\x1b[31mred: ended: by the host\n", connected), std::string::npos) << lines;
  EXPECT_NE(lines.find("192.0.2.1 status 2: refused: private data\n"), std::string::npos) << lines;
}

}  // namespace
}  // namespace uroce::testing
