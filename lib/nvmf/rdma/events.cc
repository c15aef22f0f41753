#include "nvmf/rdma/events.h"

#include <algorithm>

#include "base/values/printable.h"

namespace uroce::nvmf {
namespace {

constexpr std::array<std::string_view, kRdmaEvents> kLabels{
    "requested",
    "accepted",
    "established",
    "connected",
    "Connect refused",
    "refused: private data",
    "refused: too many queues",
    "refused: too many queues of this host",
    "refused: no resources",
    "ended: by the host",
    "ended: by the target",
    "ended: the target stops",
    "ended: device error",
    "ended: cannot be accepted",
    "ended: handshake timeout",
    "ended: no Connect in time",
    "ended: replaced before Connect",
    "ended: protocol error",
    "ended: transport error",
    "ended: stalled",
    "ended: responses are not acknowledged",
};
static_assert(!kLabels.back().empty());

constexpr int64_t kLineNs = seconds(1).ns / RdmaEvents::kLinesPerSecond;

}  // namespace

std::string_view label(RdmaEvent event) { return kLabels[static_cast<size_t>(event)]; }

void RdmaEvents::record(RdmaEvent event, const RdmaSubject& subject, Instant now) {
  counts_[static_cast<size_t>(event)].fetch_add(1, std::memory_order_relaxed);  // by itself: no partner
  if (event <= RdmaEvent::kEstablished || !log_) return;
  if (!may_log(now)) {
    ++left_out_;
    return;
  }
  const RdmaSubject about{.host = printable(subject.host),
                          .queue = subject.queue,
                          .host_nqn = printable(subject.host_nqn),
                          .more = printable(subject.more)};
  std::string line = about.host;
  if (about.queue) line += " queue " + std::to_string(*about.queue);
  if (!about.host_nqn.empty()) line += " host " + about.host_nqn;
  line += about.more + ": " + std::string(label(event));
  if (left_out_ != 0) line += " (" + std::to_string(left_out_) + " lines before it were left out)";
  left_out_ = 0;
  log_({.text = line, .event = event, .subject = about});
}

bool RdmaEvents::may_log(Instant now) {
  tokens_ns_ = std::min(tokens_ns_ + std::max<int64_t>((now - filled_at_).ns, 0), kBurst * kLineNs);
  filled_at_ = now;
  if (tokens_ns_ < kLineNs) return false;
  tokens_ns_ -= kLineNs;
  return true;
}

RdmaEventTotals RdmaEvents::totals() const {
  RdmaEventTotals totals{};
  for (size_t i = 0; i < kRdmaEvents; ++i)
    totals[i] = counts_[i].load(std::memory_order_relaxed);  // as in record()
  return totals;
}

}  // namespace uroce::nvmf
