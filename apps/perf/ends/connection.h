#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "apps/perf/plan/plan.h"
#include "client/failure.h"
#include "client/verbs_device.h"
#include "client/verbs_objects.h"

namespace uroce::perf {

/// What the other end must know to reach this one.
struct Address {
  uint32_t queue_pair = 0;
  uint32_t psn = 0;
  uint16_t lid = 0;
  ibv_gid gid{};
  uint32_t path_mtu = 0;      // bytes, the most this port carries
  uint32_t reads_in_max = 0;  // READs that this end answers at once
  uint32_t remote_key = 0;
  uint64_t source = 0;  // of READs
  uint64_t target = 0;  // of WRITEs
};

inline constexpr uint32_t kDatagramHeader = sizeof(ibv_grh);  // in front of a message of UD
inline constexpr uint32_t kBatchMax = 16;                     // requests posted by one call
inline constexpr uint64_t kReceiveMark = uint64_t{1} << 63;   // in the wr_id of receives

/// On UC a WRITE has immediate data: the receiver counts what arrives.
ibv_wr_opcode opcode_of(Service service, Operation operation);

/// A queue pair, from INIT to RTS, and the way to its peer. Every failure throws. One thread.
class Connection {
 public:
  struct Queues {
    ibv_pd* domain = nullptr;
    ibv_cq* completions = nullptr;
    uint32_t send_depth = 0;
    uint32_t receive_depth = 0;
  };

  /// The device and the plan must outlive it. The queue pair is in INIT.
  Connection(client::VerbsDevice& device, const Plan& plan, const Queues& queues);

  [[nodiscard]] ibv_qp* queue_pair() const { return queue_pair_.get(); }
  [[nodiscard]] const Address& peer() const { return peer_; }
  [[nodiscard]] uint32_t path_mtu() const { return path_mtu_; }

  /// Without what memory adds: key, source and target.
  [[nodiscard]] Address address() const;
  /// To RTS. `size_max`: of its messages.
  void connect(const Address& peer, uint64_t size_max);
  /// UD says in each request where it goes.
  void aim(ibv_send_wr& request) const;
  /// In one call, kBatchMax at most; the wr_id of each is `id` with kReceiveMark.
  void post_receives(uint64_t id, std::span<ibv_sge> segments) const;
  /// Names what failed, and where it went.
  [[nodiscard]] client::Failure failure_of(const std::string& what, const ibv_wc& completion) const;

 private:
  [[nodiscard]] ibv_ah_attr way_to_peer() const;
  void connect_reliably();
  void connect_unreliably(uint64_t size_max);
  void modify(ibv_qp_attr attributes, int mask, const char* to_state);

  client::VerbsDevice& device_;
  const Plan& plan_;
  ibv_pd* domain_;
  client::AddressHandle way_;  // UD only
  client::QueuePair queue_pair_;
  uint32_t psn_;
  uint32_t path_mtu_ = 0;
  Address peer_;
};

}  // namespace uroce::perf
