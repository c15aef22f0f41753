#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/values/random.h"
#include "base/values/time.h"
#include "qp/attributes/datagram_address.h"
#include "tests/sim/crowd_member.h"

namespace uroce::sim {

/// A host's part of a crowd: queue pairs that all complete on one queue, and send to the server.
class CrowdClient {
 public:
  CrowdClient(Host& host, uint32_t messages, uint64_t seed);

  [[nodiscard]] Host& host() { return host_; }
  /// In RESET.
  engine::QpSlot& add_queue_pair(qp::Type type);
  /// `member` sends by the newest queue pair; to the address, if it is of UD.
  void add(const Member& member, const std::optional<qp::DatagramAddress>& address);

  void act();
  [[nodiscard]] const std::string& failure() const { return failure_; }
  /// All was sent, answered where it is answered, and nothing has happened for a while.
  [[nodiscard]] bool idle() const;
  [[nodiscard]] uint64_t completed() const { return completed_; }
  std::string close();

 private:
  static constexpr uint32_t kDepth = 16;

  struct Sender {
    Member member;
    std::optional<qp::DatagramAddress> address;
    engine::QpSlot* queue_pair = nullptr;
    std::unique_ptr<RegisteredMemory> memory;  // kDepth messages, then as many answers
    uint32_t posted = 0;
    uint32_t sent = 0;
    uint32_t answered = 0;
    uint32_t receives_posted = 0;
  };

  void fail(const std::string& what) {
    if (failure_.empty()) failure_ = what;
  }
  void poll();
  void completed(const queue::Completion& completion);
  void post(Sender& sender);
  void post_receive(Sender& sender);

  Host& host_;
  const uint32_t messages_;
  Random random_;
  const DomainId domain_;
  std::string failure_;
  std::unique_ptr<queue::CompletionQueue> completions_;
  std::vector<engine::QpSlot*> queue_pairs_;
  std::vector<std::unique_ptr<Sender>> senders_;
  uint64_t completed_ = 0;
  Instant last_event_{};
};

}  // namespace uroce::sim
