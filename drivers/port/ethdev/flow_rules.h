#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"

struct rte_flow;

namespace uroce::drivers {

/// What a NIC that a driver of the kernel has, too, delivers to DPDK: RoCE to addresses that are given, and
/// to multicast groups, by rules of rte_flow. All else is the kernel's. Control path, one thread at a time.
class FlowRules {
 public:
  /// From now on only what a rule takes comes to DPDK. Before the port is configured. The error's message is
  /// the driver's reason.
  static Status isolate(uint16_t port_id);

  /// The port is started; so far nothing is taken.
  FlowRules(uint16_t port_id, uint16_t queues) : port_id_(port_id), queues_(queues) {}
  FlowRules(const FlowRules&) = delete;
  FlowRules& operator=(const FlowRules&) = delete;
  ~FlowRules() { drop(rules_.size()); }

  /// RoCE to groups. Spreads frames over the queues by their UDP ports, where the NIC can by a rule; else all
  /// come to queue 0. To be called first.
  Status take_groups();
  /// RoCE to these addresses and no others. Where a rule is refused the others are there nevertheless.
  Status take(std::span<const Gid> addresses);

  /// Why frames are not spread over the queues; empty: they are, or there is one.
  [[nodiscard]] const std::string& why_one_queue() const { return why_one_queue_; }

 private:
  struct Rule {
    Gid destination;
    unsigned prefix_bits;  // of it
    rte_flow* flow;
  };
  Status add(const Gid& destination, unsigned prefix_bits);
  void drop(size_t count);
  [[nodiscard]] Result<rte_flow*> make(const Gid& destination, unsigned prefix_bits, bool spread) const;

  const uint16_t port_id_;
  const uint16_t queues_;
  std::string why_one_queue_;
  std::vector<Rule> rules_;
};

}  // namespace uroce::drivers
