// Decision: pending connections are bounded by address, and the oldest open handshake goes first. Refusing
// the newest would let requests with a forged address lock that address out; what has answered a handshake is
// no forgery. Cost: a flood makes the target create and destroy a queue for every request.
#include "nvmf/rdma/admission.h"

#include <algorithm>
#include <utility>

namespace uroce::nvmf {
namespace {

uint32_t or_share(uint32_t configured, uint32_t all, uint32_t divisor) {
  return configured != 0 ? configured : std::max(all / divisor, 1u);
}

}  // namespace

RdmaAdmission::RdmaAdmission(const RdmaOptions& options)
    : queues_max_(options.queues_max),
      queues_per_host_(or_share(options.queues_per_host, options.queues_max, 2)),
      pending_max_(or_share(options.pending_max, options.queues_max, 4)),
      pending_per_host_(options.pending_per_host),
      connect_max_(seconds(options.connect_s)) {}

bool RdmaAdmission::is_known(const RdmaAddress& host) const {
  const auto found = hosts_.find(host);
  return found != hosts_.end() && found->second.connected != 0;
}

std::optional<RdmaEvent> RdmaAdmission::refusal(const RdmaAddress& host) const {
  if (connections_.size() >= queues_max_) return RdmaEvent::kRefusedQueues;
  const auto found = hosts_.find(host);
  if (found != hosts_.end() && found->second.queues >= queues_per_host_) return RdmaEvent::kRefusedHostQueues;
  return std::nullopt;
}

std::optional<RdmaAdmission::Number> RdmaAdmission::to_replace(const RdmaAddress& host) const {
  if (is_known(host)) return std::nullopt;
  using Entry = std::map<Number, Connection>::value_type;
  uint32_t all = 0, of_host = 0;
  const Entry* first = nullptr;
  const Entry* first_of_host = nullptr;
  // The oldest come first.
  for (const Entry& entry : connections_) {
    if (!is_pending(entry.second) || is_known(entry.second.host)) continue;
    ++all;
    if (first == nullptr || goes_before(entry.second, first->second)) first = &entry;
    if (entry.second.host != host) continue;
    ++of_host;
    if (first_of_host == nullptr || goes_before(entry.second, first_of_host->second)) first_of_host = &entry;
  }
  if (of_host >= pending_per_host_ && first_of_host != nullptr) return first_of_host->first;
  return all >= pending_max_ && first != nullptr ? std::optional(first->first) : std::nullopt;
}

bool RdmaAdmission::goes_before(const Connection& one, const Connection& other) const {
  if (one.stage != other.stage) return one.stage < other.stage;
  // Requests may name any host.
  if (one.stage == Stage::kHandshake) return false;
  return hosts_.at(one.host).pending > hosts_.at(other.host).pending;
}

void RdmaAdmission::change_stage(Connection& connection, Stage stage) {
  Host& host = hosts_[connection.host];
  if (is_pending(connection)) --host.pending;
  connection.stage = stage;
  if (is_pending(connection)) ++host.pending;
}

void RdmaAdmission::add(Number connection, const RdmaAddress& host, Instant now) {
  connections_[connection] = {.host = host, .since = now};
  ++hosts_[host].queues;
  ++hosts_[host].pending;
}

void RdmaAdmission::established(Number connection) {
  const auto found = connections_.find(connection);
  if (found != connections_.end() && found->second.stage == Stage::kHandshake)
    found->second.stage = Stage::kEstablished;
}

void RdmaAdmission::connected(Number connection, bool discovery) {
  const auto found = connections_.find(connection);
  if (found == connections_.end() || found->second.stage == Stage::kEnding) return;
  change_stage(found->second, discovery ? Stage::kDiscovery : Stage::kConnected);
  if (discovery || std::exchange(found->second.known, true)) return;
  ++hosts_[found->second.host].connected;
}

void RdmaAdmission::forget_connected(Connection& connection) {
  if (std::exchange(connection.known, false)) --hosts_[connection.host].connected;
}

void RdmaAdmission::ending(Number connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  change_stage(found->second, Stage::kEnding);
  forget_connected(found->second);
}

void RdmaAdmission::remove(Number connection) {
  const auto found = connections_.find(connection);
  if (found == connections_.end()) return;
  change_stage(found->second, Stage::kEnding);
  forget_connected(found->second);
  const auto host = hosts_.find(found->second.host);
  if (--host->second.queues == 0) hosts_.erase(host);
  connections_.erase(found);
}

std::vector<RdmaAdmission::Late> RdmaAdmission::late(Instant now) const {
  std::vector<Late> late;
  for (const auto& [number, one] : connections_) {
    if (one.stage == Stage::kHandshake) {
      if (now - one.since > connect_max_) late.push_back({number, RdmaEvent::kEndedHandshake});
    } else if (one.stage == Stage::kEstablished) {
      const Duration allowed = is_known(one.host) ? connect_max_ * kKnownFactor : connect_max_;
      if (now - one.since > allowed) late.push_back({number, RdmaEvent::kEndedNoConnect});
    }
  }
  return late;
}

bool RdmaAdmission::has_waiting() const {
  return std::ranges::any_of(connections_,
                             [](const auto& one) { return one.second.stage <= Stage::kEstablished; });
}

}  // namespace uroce::nvmf
