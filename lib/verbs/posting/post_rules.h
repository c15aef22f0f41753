#pragma once

#include <infiniband/verbs.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "qp/attributes/attributes.h"
#include "qp/attributes/operations.h"
#include "queue/work_request.h"

namespace uroce::verbs {

/// What posting has to know of an opcode on queue pairs of one type.
struct PostRule {
  unsigned flags_refused = 0;
  queue::SendOperation operation{};
  bool allowed = false;
  bool has_list = false;
  bool plain = false;  // allowed, and all that there is to it is the list
};

/// The rules of one type of queue pair.
class PostRules {
 public:
  constexpr explicit PostRules(qp::Type type) {
    using enum queue::SendOperation;
    allow(type, IBV_WR_SEND, kSend);
    allow(type, IBV_WR_SEND_WITH_IMM, kSendImm);
    allow(type, IBV_WR_SEND_WITH_INV, kSendInvalidate);
    allow(type, IBV_WR_RDMA_WRITE, kWrite);
    allow(type, IBV_WR_RDMA_WRITE_WITH_IMM, kWriteImm);
    allow(type, IBV_WR_RDMA_READ, kRead);
    allow(type, IBV_WR_ATOMIC_CMP_AND_SWP, kCompareSwap);
    allow(type, IBV_WR_ATOMIC_FETCH_AND_ADD, kFetchAdd);
    allow(type, IBV_WR_ATOMIC_WRITE, kAtomicWrite);
    allow(type, IBV_WR_LOCAL_INV, kLocalInvalidate);
  }
  /// Any number.
  [[nodiscard]] constexpr const PostRule& of(unsigned opcode) const {
    return rules_[std::min<size_t>(opcode, kOpcodes)];
  }

 private:
  static constexpr size_t kOpcodes = IBV_WR_ATOMIC_WRITE + 1;

  constexpr void allow(qp::Type type, ibv_wr_opcode opcode, queue::SendOperation operation) {
    const bool allowed = qp::has_operation(type, operation);
    const bool has_list = !queue::is_local(operation);
    const bool names_receiver = type == qp::Type::kUd || type == qp::Type::kXrcSend;
    unsigned flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    if (has_list && !queue::has_result(operation)) flags |= IBV_SEND_INLINE;
    rules_[opcode] = {.flags_refused = ~flags,
                      .operation = operation,
                      .allowed = allowed,
                      .has_list = has_list,
                      .plain = allowed && has_list && !names_receiver && !queue::is_atomic(operation)};
  }

  std::array<PostRule, kOpcodes + 1> rules_{};  // the last: of numbers that are no opcodes
};

inline const PostRules& post_rules(qp::Type type) {
  constexpr auto kTypes = static_cast<size_t>(qp::Type::kXrcReceive) + 1;
  static constexpr auto kRules = []<size_t... kType>(std::index_sequence<kType...>) {
    return std::array{PostRules(static_cast<qp::Type>(kType))...};
  }(std::make_index_sequence<kTypes>());
  return kRules[static_cast<size_t>(type)];
}

/// What a request keeps of send_flags that are not refused.
inline const queue::SendFlags& send_flags(unsigned flags) {
  static constexpr auto kTranslated = [] {
    std::array<queue::SendFlags, 16> translated;
    for (unsigned given = 0; given < translated.size(); ++given)
      translated[given] = {.fence = (given & IBV_SEND_FENCE) != 0,
                           .signaled = (given & IBV_SEND_SIGNALED) != 0,
                           .solicited = (given & IBV_SEND_SOLICITED) != 0,
                           .inline_data = (given & IBV_SEND_INLINE) != 0};
    return translated;
  }();
  return kTranslated[flags];
}

}  // namespace uroce::verbs
