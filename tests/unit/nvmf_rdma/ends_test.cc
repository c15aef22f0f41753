// A queue can be ended from every state within a second of the target's clock, whatever its host does or
// leaves undone.
#include <cctype>
#include <chrono>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>

#include "exported.h"
#include "tests/nvmf/rdma_stranger.h"

namespace uroce::testing {
namespace {

constexpr uint32_t kLargest = 131072;

/// Hosts in one state, and the queues that the target has of them.
struct Party {
  std::optional<RdmaStranger> stranger;
  std::optional<RdmaHostQueue> queue;
  std::optional<RdmaSession> session;
  RdmaHostQueue* io_queue = nullptr;
};

struct State {
  const char* name;
  size_t queues;
  void (*enter)(Party& party);
};

void connect(Party& party, uint32_t receives = UINT32_MAX, std::optional<uint8_t> ack_timeout = {}) {
  RdmaSession::Options options{.subsystem_nqn = kDisks};
  options.queue.entries = 32;
  options.queue.receives = receives;
  options.queue.ack_timeout = ack_timeout;
  party.session.emplace(options);
  party.io_queue = &party.session->connect_io(1);
}

void send_large(Party& party, uint32_t nsid, uint8_t opcode) {
  for (uint16_t cid = 0; cid < 31; ++cid)
    party.io_queue->send(io(*party.io_queue, opcode, nsid, 0, kLargest, cid));
}

// From the third on they have a controller.
constexpr State kStates[] = {
    {"handshake", 1,
     [](Party& party) {
       party.stranger.emplace().request_queue(0);
       EXPECT_EQ(party.stranger->wait_ms(60'000), RdmaStranger::Answer::kAccepted);
     }},
    {"before Connect", 1, [](Party& party) { party.queue.emplace(RdmaHostQueue::Options{}); }},
    {"idle", 2, [](Party& party) { connect(party); }},
    {"commands that wait for buffers", 2,
     [](Party& party) {
       connect(party, 2);
       send_large(party, kFile, command::kRead);
     }},
    {"responses that are never acknowledged, ACK timeout infinite", 2,
     [](Party& party) {
       connect(party, 2, uint8_t{0});
       send_large(party, kNull, command::kWrite);
     }},
    {"responses that are never acknowledged, ACK timeout of hours", 2,
     [](Party& party) {
       connect(party, 2, uint8_t{31});
       send_large(party, kNull, command::kRead);
     }},
};

class Ends : public Exported, public ::testing::WithParamInterface<State> {
 protected:
  void enter(Party& party) {
    nvmf::RdmaOptions options;
    options.large_buffers = 4;
    open(options);
    GetParam().enter(party);
    ASSERT_EQ(transport->report().size(), GetParam().queues);
    // Whatever was sent is where it comes to without more help of the host.
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    freeze();
  }
};

class ControllerEnds : public Ends {};

TEST_P(Ends, ByTheTarget_ExpectNoQueueLeftAfterASecond) {
  Party party;
  ASSERT_NO_FATAL_FAILURE(enter(party));
  std::thread stopper([this] { transport->stop(); });
  advance(milliseconds(1000));
  EXPECT_TRUE(comes_down_to(0));
  stopper.join();
}

TEST_P(ControllerEnds, ByTheSubsystem_ExpectNoQueueOfItsControllersLeftAfterASecond) {
  Party party;
  ASSERT_NO_FATAL_FAILURE(enter(party));
  ASSERT_TRUE(target->remove_subsystem(kDisks).ok());
  advance(milliseconds(500));  // for the last responses
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  advance(milliseconds(500));  // for the device's last event
  EXPECT_TRUE(comes_down_to(0));
}

TEST_P(Ends, ByTheHost_ExpectNoQueueLeftAfterASecond) {
  Party party;
  ASSERT_NO_FATAL_FAILURE(enter(party));
  if (party.stranger) party.stranger->withdraw();
  if (party.queue) party.queue->disconnect();
  if (party.session) {
    party.io_queue->disconnect();
    party.session->admin().disconnect();
  }
  advance(milliseconds(1000));
  EXPECT_TRUE(comes_down_to(0));
}

std::string name_of(const ::testing::TestParamInfo<State>& state) {
  std::string name;
  for (const char c : std::string_view(state.param.name)) name += std::isalpha(c) != 0 ? c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(States, Ends, ::testing::ValuesIn(kStates), name_of);
INSTANTIATE_TEST_SUITE_P(States, ControllerEnds, ::testing::ValuesIn(std::span(kStates).subspan(2)), name_of);

}  // namespace
}  // namespace uroce::testing
