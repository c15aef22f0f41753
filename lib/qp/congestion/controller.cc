// Decision: a queue pair has no congestion control unless `congestion.control` names one. "dcqcn" needs
// switches that mark and peers that send CNPs. Cost of "swift": it has to be on before a queue builds, and
// takes CPU contention for a queue (`sim_test --gtest_filter='Incast*'`).
#include "qp/congestion/controller.h"

#include <new>
#include <utility>

#include "base/values/contract.h"

namespace uroce::qp {

bool CongestionController::choose(const CongestionOptions& options) {
  const CongestionRow& row = row_of(options.control);
  std::unique_ptr<Flow> flow;
  if (row.make != nullptr) {
    std::unique_ptr<CongestionAlgorithm> algorithm = row.make(options);
    if (algorithm == nullptr) return false;
    flow.reset(new (std::nothrow) Flow{.algorithm = std::move(algorithm), .by_answers = row.needs_answers});
    if (flow == nullptr) return false;
  }
  flow_ = std::move(flow);
  return true;
}

void CongestionController::path_changed(uint32_t mtu, const PathStatistics& path) {
  if (flow_ == nullptr) return;
  flow_->algorithm->path_changed(mtu);
  flow_->samples = path.samples;
  flow_->timeouts = path.timeouts;
}

void CongestionController::cnp(uint32_t port_mbps, Instant now) {
  ++cnps_;
  if (flow_ == nullptr) return;
  if (!flow_->algorithm->limits()) flow_->pacer.start(now);
  flow_->algorithm->cnp(port_mbps, now);
}

void CongestionController::observe(const PathStatistics& path, Instant now) {
  UROCE_ASSERT(limits());
  if (std::exchange(flow_->timeouts, path.timeouts) != path.timeouts) flow_->algorithm->timed_out(now);
  if (std::exchange(flow_->samples, path.samples) != path.samples)
    flow_->algorithm->acknowledged(path.round_trip, now);
}

void CongestionController::sent(uint32_t bytes) {
  flow_->pacer.sent(flow_->algorithm->mbps(), bytes);
  flow_->algorithm->sent(bytes);
}

bool CongestionController::may_send(Instant now) {
  flow_->algorithm->advance(now);
  return flow_->pacer.may_send(flow_->algorithm->mbps(), now);
}

void CongestionController::shift(Duration by) {
  if (flow_ == nullptr) return;
  flow_->pacer.shift(by);
  flow_->algorithm->shift(by);
}

}  // namespace uroce::qp
