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

// The operation table has the numbers of verbs.h.
constexpr bool is_posted_as(queue::SendOperation operation, unsigned opcode, uint64_t create_flag) {
  const queue::OperationRow& row = queue::row_of(operation);
  return row.posted_as == opcode && row.create_flag == create_flag;
}
static_assert(is_posted_as(queue::SendOperation::kSend, IBV_WR_SEND, IBV_QP_EX_WITH_SEND));
static_assert(is_posted_as(queue::SendOperation::kSendImm, IBV_WR_SEND_WITH_IMM,
                           IBV_QP_EX_WITH_SEND_WITH_IMM));
static_assert(is_posted_as(queue::SendOperation::kSendInvalidate, IBV_WR_SEND_WITH_INV,
                           IBV_QP_EX_WITH_SEND_WITH_INV));
static_assert(is_posted_as(queue::SendOperation::kWrite, IBV_WR_RDMA_WRITE, IBV_QP_EX_WITH_RDMA_WRITE));
static_assert(is_posted_as(queue::SendOperation::kWriteImm, IBV_WR_RDMA_WRITE_WITH_IMM,
                           IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM));
static_assert(is_posted_as(queue::SendOperation::kRead, IBV_WR_RDMA_READ, IBV_QP_EX_WITH_RDMA_READ));
static_assert(is_posted_as(queue::SendOperation::kCompareSwap, IBV_WR_ATOMIC_CMP_AND_SWP,
                           IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP));
static_assert(is_posted_as(queue::SendOperation::kFetchAdd, IBV_WR_ATOMIC_FETCH_AND_ADD,
                           IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD));
static_assert(is_posted_as(queue::SendOperation::kAtomicWrite, IBV_WR_ATOMIC_WRITE,
                           IBV_QP_EX_WITH_ATOMIC_WRITE));
static_assert(is_posted_as(queue::SendOperation::kLocalInvalidate, IBV_WR_LOCAL_INV,
                           IBV_QP_EX_WITH_LOCAL_INV));
static_assert(queue::row_of(queue::SendOperation::kBindWindow).create_flag == IBV_QP_EX_WITH_BIND_MW);

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
    for (const queue::OperationRow& row : queue::kOperations)
      if (row.posted_as != queue::OperationRow::kNotPosted) allow(type, row);
  }
  /// Any number.
  [[nodiscard]] constexpr const PostRule& of(unsigned opcode) const {
    return rules_[std::min<size_t>(opcode, kOpcodes)];
  }

 private:
  static constexpr size_t kOpcodes = [] {
    size_t opcodes = 0;
    for (const queue::OperationRow& row : queue::kOperations)
      if (row.posted_as != queue::OperationRow::kNotPosted)
        opcodes = std::max(opcodes, row.posted_as + size_t{1});
    return opcodes;
  }();

  constexpr void allow(qp::Type type, const queue::OperationRow& row) {
    const bool allowed = qp::has_operation(type, row.operation);
    const bool has_list = !queue::is_local(row.operation);
    const bool names_receiver = type == qp::Type::kUd || type == qp::Type::kXrcSend;
    unsigned flags = IBV_SEND_FENCE | IBV_SEND_SIGNALED | IBV_SEND_SOLICITED;
    if (has_list && !row.has_result) flags |= IBV_SEND_INLINE;
    rules_[row.posted_as] = {.flags_refused = ~flags,
                             .operation = row.operation,
                             .allowed = allowed,
                             .has_list = has_list,
                             .plain = allowed && has_list && !names_receiver && !row.has_operands};
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
