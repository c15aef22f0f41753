#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/values/sequence_number.h"
#include "engine/device/device.h"
#include "queue/completion_queue.h"
#include "queue/work_queue.h"
#include "tests/sim/arena.h"
#include "tests/sim/host.h"

namespace uroce::sim {

/// What an application holds for one connection: a queue pair with its completion queues, and memory.
class Endpoint {
 public:
  static constexpr uint32_t kDepth = 32;
  static constexpr uint32_t kSegments = 6;
  static constexpr uint32_t kInlineBytes = 300;

  struct Options {
    uint64_t iova = 0;
    bool signal_all = false;
    qp::Type type = qp::Type::kRc;
    uint32_t depth = kDepth;  // of its queues
    uint64_t arena_bytes = Arena::kBytes;
  };
  Endpoint(Host& where, const Options& options, Random& random);
  ~Endpoint() { close(); }
  Endpoint(const Endpoint&) = delete;
  Endpoint& operator=(const Endpoint&) = delete;

  Host& host;
  const DomainId domain;
  Arena arena;
  const bool signal_all;
  const qp::Type type;

  /// Gives everything back to the device, with whatever traffic there is; what went wrong, or an empty text.
  std::string close();

  [[nodiscard]] QpNumber number() const { return queue_pair_->number; }
  [[nodiscard]] queue::SendQueue& sends() { return queue_pair_->send_queue; }
  [[nodiscard]] queue::ReceiveQueue& receives() { return queue_pair_->receive_queue; }
  void publish_sends();
  void publish_receives();
  size_t poll_sends(std::span<queue::Completion> to) { return host.poll(*send_completions_, to); }
  size_t poll_receives(std::span<queue::Completion> to) { return host.poll(*receive_completions_, to); }
  void modify(const qp::Attributes& attributes, qp::AttributeMask mask);

 private:
  std::unique_ptr<queue::CompletionQueue> send_completions_;
  std::unique_ptr<queue::CompletionQueue> receive_completions_;
  engine::QpSlot* queue_pair_ = nullptr;  // nullptr: closed
};

/// What both ends of a connection agree on.
struct ConnectionOptions {
  PathMtu path_mtu = PathMtu::k1024;
  Psn psn_a;  // first PSN that a sends
  Psn psn_b;
  uint8_t reads = 4;
  uint8_t timeout = 8;  // about 1 ms
  uint8_t retry_count = 7;
  uint8_t min_rnr_timer = 1;
  size_t gid = 1;  // index in both tables
};

/// Takes both queue pairs from RESET to RTS. An endpoint connected to itself has one first PSN, psn_a.
void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options);

}  // namespace uroce::sim
