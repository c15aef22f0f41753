#pragma once

#include <cstdint>

#include "base/values/identifiers.h"
#include "base/values/sequence_number.h"
#include "mem/rights/access.h"
#include "qp/attributes/attribute_mask.h"
#include "wire/frame.h"

namespace uroce::qp {

/// Values of `enum ibv_qp_state`.
enum class State : uint8_t { kReset = 0, kInit = 1, kRtr = 2, kRts = 3, kSqd = 4, kSqe = 5, kErr = 6 };

/// Values of `enum ibv_qp_type`.
enum class Type : uint8_t { kRc = 2, kUc = 3, kUd = 4, kXrcSend = 9, kXrcReceive = 10 };

/// What ibv_modify_qp can set, as values of the stack; which members count is said by an AttributeMask.
struct Attributes {
  State state = State::kReset;
  State current_state = State::kReset;
  uint16_t pkey_index = 0;
  mem::Access access;
  wire::Path path;  // the address vector, resolved to MACs; the UDP source port is chosen by the queue pair
  QpNumber destination;
  uint32_t qkey = 0;
  Psn rq_psn;
  Psn sq_psn;
  bool to_self = false;  // `path` leads to this very port, and to a queue pair of this process
  bool on_host = false;  // or to one of another process that shares the port
  uint8_t port = 1;
  PathMtu path_mtu = PathMtu::k1024;
  uint8_t timeout = 0;  // 4.096 us * 2^timeout; 0 = never
  uint8_t retry_count = 0;
  uint8_t rnr_retry = 0;  // 7 = for ever
  uint8_t min_rnr_timer = 0;
  uint8_t max_rd_atomic = 0;
  uint8_t max_dest_rd_atomic = 0;
  bool notify_drained = false;  // with the way to SQD: tell when nothing is under way any more ...
  bool draining = false;        // ... which is not so yet. Only told
};

/// Checks a transition by the state table: 0, or EINVAL when the transition does not exist, a required
/// attribute is missing or one is given that does not belong there (ibv_modify_qp(3)). `to` is `from` when
/// kMaskState is not set.
int check_transition(Type type, State from, State to, AttributeMask mask);

/// How many READs a queue pair may have under way: its own, and those of the peer.
struct ReadLimits {
  uint8_t sent = 0;      // upper limit for max_rd_atomic
  uint8_t answered = 0;  // upper limit for max_dest_rd_atomic
};

/// Checks the ranges of the values that `mask` names: 0, EINVAL, or EOPNOTSUPP for what this stack does not
/// have.
int check_values(const Attributes& attributes, AttributeMask mask, ReadLimits reads, size_t partition_keys);

/// Copies the values that `mask` names, the states excepted.
void apply(const Attributes& from, AttributeMask mask, Attributes& to);

}  // namespace uroce::qp
