#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "tests/sim/crowd_member.h"

namespace uroce::sim {

/// Serves a crowd: all its queue pairs take their receives from one shared queue and complete on one
/// completion queue. Each message must be whole and of a member's; those of RC come once and in order, those
/// of UC, as long as the network keeps it, in order, and to each of RC there is an answer with its number.
class CrowdServer final : public queue::LimitListener {
 public:
  static constexpr uint32_t kSlots = 48;
  static constexpr uint32_t kLimit = 8;
  static constexpr uint32_t kHeaderBytes = 40;  // before a datagram
  static constexpr uint32_t kAnswersMax = 16;   // under way, of a queue pair

  CrowdServer(Host& host, uint32_t bytes_max, bool in_order, uint64_t seed);

  [[nodiscard]] Host& host() { return host_; }
  /// In RESET.
  engine::QpSlot& add_queue_pair(qp::Type type);
  void add(const Member& member);

  void act();
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// Of RC: answered.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] uint64_t received() const { return received_; }
  [[nodiscard]] uint64_t limits_reached() const { return limits_reached_; }
  std::string close();

  void limit_reached(queue::SharedReceiveQueue&) override { ++limits_reached_; }

 private:
  struct Served {
    Member member;
    engine::QpSlot* queue_pair = nullptr;
    uint32_t next = 0;  // number of the message that comes
    std::deque<uint32_t> to_answer;
    uint32_t answers_posted = 0;
    uint32_t answers_sent = 0;
  };

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  void post_receives();
  void poll();
  void received(const queue::Completion& completion);
  std::string check(const queue::Completion& completion, Served& served, std::span<const std::byte> message);
  void answered(const queue::Completion& completion);
  void answer(Served& served);

  Host& host_;
  const uint32_t slot_bytes_;
  const bool in_order_;
  Random random_;
  const DomainId domain_;
  std::string failure_;
  std::unique_ptr<queue::CompletionQueue> completions_;
  std::unique_ptr<engine::SharedReceives> receives_;
  RegisteredMemory memory_;   // receives
  RegisteredMemory answers_;  // kAnswersMax of each member
  std::vector<bool> posted_;  // by slot
  std::vector<engine::QpSlot*> queue_pairs_;
  std::vector<Served> served_;
  uint64_t received_ = 0;
  uint64_t limits_reached_ = 0;
};

}  // namespace uroce::sim
