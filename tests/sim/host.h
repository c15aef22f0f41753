#pragma once

#include <cstdint>
#include <map>
#include <memory>

#include "base/counters.h"
#include "copy/placer.h"
#include "mem/region_table.h"
#include "port/port.h"
#include "port/tx_batch.h"
#include "qp/queue_pair.h"
#include "qp/turn.h"

namespace uroce::sim {

/// The smallest thing that turns queue pairs: parse, ICRC, lookup, receive, timers, pump, flush.
class Host {
 public:
  Host(const Instant& now, port::Port& port, copy::Kind kind);

  qp::QueuePair& create_queue_pair(const qp::QueuePair::Options& options);
  int modify(qp::QueuePair& queue_pair, const qp::Attributes& attributes, uint32_t mask);

  [[nodiscard]] mem::RegionTable& regions() { return regions_; }
  [[nodiscard]] const Counters& counters() const { return counters_; }

  /// One turn; true when there is more to do at once.
  bool turn();
  /// When turn() is due for the sake of a timer.
  [[nodiscard]] Instant deadline() const;

 private:
  bool receive_burst();
  void dispatch(const port::RxFrame& frame);
  void publish();
  bool flush();

  const Instant& now_;
  port::PortQueue& queue_;
  mem::RegionTable regions_;
  copy::Placer placer_;
  port::TxBatch tx_;
  queue::CompletionBatch completions_{0};
  Counters counters_;
  qp::Turn turn_;
  std::map<uint32_t, std::unique_ptr<qp::QueuePair>> queue_pairs_;
};

}  // namespace uroce::sim
