#pragma once

#include <cstdint>
#include <memory>

#include "qp/queue_pair.h"
#include "queue/completion_queue.h"
#include "queue/work_queue.h"
#include "tests/sim/arena.h"
#include "tests/sim/host.h"

namespace uroce::sim {

/// What an application holds for one connection: a queue pair with its queues, and memory.
struct Endpoint {
  static constexpr uint32_t kDepth = 32;
  static constexpr uint32_t kSegments = 6;
  static constexpr uint32_t kInlineBytes = 300;

  struct Options {
    QpNumber number;
    uint64_t iova = 0;
    bool signal_all = false;
  };
  Endpoint(Host& where, const Options& options, Random& random);

  Host& host;
  DomainId domain{1};
  Arena arena;
  queue::SendQueue sends;
  queue::ReceiveQueue receives;
  queue::CompletionQueue send_completions;
  queue::CompletionQueue receive_completions;
  bool signal_all;
  qp::QueuePair& queue_pair;
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
  wire::Path path_a;  // from a to b
};

/// Takes both queue pairs from RESET to RTS.
void connect(Endpoint& a, Endpoint& b, const ConnectionOptions& options);

}  // namespace uroce::sim
