#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/sim/endpoint.h"

namespace uroce::sim {

/// Messages from one endpoint to its peer (READs included), posted at random and checked one by one:
/// completed once, in order, and in memory exactly what was meant. The first thing that is wrong ends it.
class Flow {
 public:
  struct Options {
    uint32_t messages = 50;
    uint32_t bytes_max = 100'000;
    uint32_t mtu = 1024;
    uint64_t seed = 0;
    bool errors_expected = false;  // the connection may break: then the rest must be flushed
    uint32_t spoil = 0;            // one in so many WRITEs and READs has a wrong key; 0: none
  };
  Flow(Endpoint& from, Endpoint& to, const Options& options);

  /// What the two applications do now: post, poll, check.
  void act();
  [[nodiscard]] bool done() const;
  /// Nothing more is posted; what was posted shall come back, one way or the other.
  void stop() { stopped_ = true; }
  [[nodiscard]] bool drained() const { return outstanding_.empty() && receives_.empty(); }
  /// Empty while all is well.
  [[nodiscard]] const std::string& failure() const { return failure_; }
  [[nodiscard]] uint32_t completed() const { return completed_; }

 private:
  using Slots = std::vector<Arena::Slot>;
  struct Message {
    uint64_t id = 0;
    queue::SendOperation operation = queue::SendOperation::kSend;
    std::vector<std::byte> bytes;
    Slots local;                        // the segments at `from`
    std::optional<Arena::Slot> remote;  // WRITE and READ: at `to`
    uint32_t immediate = 0;
    bool signaled = false;
    bool solicited = false;
    bool spoiled = false;  // must not succeed
  };
  struct Receive {
    uint64_t id = 0;
    Slots slots;
  };

  bool post();
  void fill_randomly(std::span<std::byte> bytes);
  void post_receive();
  bool prepare(Message& message, bool inline_data);
  void fill(queue::SendRequest& request, const Message& message, bool inline_data);
  std::optional<Slots> lend_pieces(Arena& arena, uint64_t bytes);
  void give_back(Arena& arena, const Slots& slots);

  void poll_sends();
  void complete(const Message& message, bool success);
  void poll_receives();
  void check_received(const Message& message, const Receive& receive, const queue::Completion& completion);
  void fail(const std::string& what);

  Endpoint& from_;
  Endpoint& to_;
  Options options_;
  Random random_;
  std::string failure_;
  uint32_t posted_ = 0;
  uint32_t completed_ = 0;
  uint64_t receives_posted_ = 0;
  bool stopped_ = false;
  bool broken_ = false;                 // an error completion was seen
  std::deque<Message> outstanding_;     // posted, not completed
  std::deque<Message> to_be_received_;  // SEND and WRITE with immediate, until their receive completes
  std::deque<Receive> receives_;        // posted, not completed
};

}  // namespace uroce::sim
