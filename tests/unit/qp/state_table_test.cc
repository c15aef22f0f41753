#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <map>
#include <tuple>

#include "qp/attributes/attributes.h"

namespace uroce::qp {
namespace {

constexpr std::array kStates = {State::kReset, State::kInit, State::kRtr, State::kRts,
                                State::kSqd,   State::kSqe,  State::kErr};
constexpr uint32_t kBits = 26;

/// ibv_modify_qp(3) and the architecture's figure of the queue pair states, written down once more.
struct Row {
  AttributeMask required;
  AttributeMask optional;
};
using Table = std::map<std::pair<State, State>, Row>;

constexpr AttributeMask kAlternate = kMaskAltPath | kMaskPathMigState;

Table expected(Type type) {
  const bool requester = type == Type::kRc || type == Type::kXrcSend;  // of a reliable service
  const bool responder = type == Type::kRc || type == Type::kXrcReceive;
  const bool ud = type == Type::kUd;
  const AttributeMask init = kMaskPkeyIndex | kMaskPort | (ud ? kMaskQkey : kMaskAccessFlags);
  const AttributeMask to_rts = kMaskCurrentState | (ud ? kMaskQkey : kMaskAccessFlags | kAlternate) |
                               (responder ? kMaskMinRnrTimer : AttributeMask{});
  AttributeMask rtr = kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
  AttributeMask rts = kMaskSqPsn;
  AttributeMask sqd = kMaskAv | kMaskPkeyIndex | kMaskAccessFlags | kAlternate;
  if (responder) {
    rtr |= kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
    rts |= kMaskTimeout;
    sqd |= kMaskPort | kMaskTimeout | kMaskMaxDestRdAtomic | kMaskMinRnrTimer;
  }
  if (requester) {
    rts |= kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
    sqd |= kMaskPort | kMaskTimeout | kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic;
  }
  Table table;
  for (const State from : kStates) {
    table[{from, State::kReset}] = {};
    if (from != State::kReset) table[{from, State::kErr}] = {};
  }
  table[{State::kReset, State::kInit}] = {init, {}};
  table[{State::kInit, State::kInit}] = {{}, init};
  table[{State::kInit, State::kRtr}] =
      ud ? Row{{}, kMaskPkeyIndex | kMaskQkey} : Row{rtr, kMaskAltPath | kMaskAccessFlags | kMaskPkeyIndex};
  table[{State::kRtr, State::kRts}] = {rts, to_rts};
  table[{State::kRts, State::kRts}] = {{}, to_rts};
  table[{State::kRts, State::kSqd}] = {{}, kMaskEnSqdAsyncNotify};
  table[{State::kSqd, State::kRts}] = {{}, to_rts};
  table[{State::kSqd, State::kSqd}] = {{}, ud ? kMaskPkeyIndex | kMaskQkey : sqd};
  if (ud) table[{State::kSqe, State::kRts}] = {{}, to_rts};
  if (type == Type::kUc) table[{State::kSqe, State::kRts}] = {{}, kMaskCurrentState | kMaskAccessFlags};
  return table;
}

class StateTable : public ::testing::TestWithParam<Type> {};

TEST_P(StateTable, EveryPairOfStatesAndEveryAttribute) {
  const Table table = expected(GetParam());
  for (const State from : kStates) {
    for (const State to : kStates) {
      SCOPED_TRACE(std::to_string(static_cast<int>(from)) + " -> " + std::to_string(static_cast<int>(to)));
      const auto found = table.find({from, to});
      if (found == table.end()) {
        for (uint32_t bit = 0; bit < kBits; ++bit) {
          EXPECT_EQ(check_transition(GetParam(), from, to, kMaskState | AttributeMask(1u << bit)), EINVAL);
        }
        EXPECT_EQ(check_transition(GetParam(), from, to, kMaskState), EINVAL);
        continue;
      }
      const auto [required, optional] = found->second;
      EXPECT_EQ(check_transition(GetParam(), from, to, kMaskState | required), 0);
      EXPECT_EQ(check_transition(GetParam(), from, to, kMaskState | required | optional), 0);
      for (uint32_t bit = 1; bit < kBits; ++bit) {
        const AttributeMask attribute(1u << bit);
        if (required.any(attribute)) {
          EXPECT_EQ(check_transition(GetParam(), from, to, kMaskState | required.without(attribute)), EINVAL)
              << bit;
        } else {
          const int with = check_transition(GetParam(), from, to, kMaskState | required | attribute);
          EXPECT_EQ(with, optional.any(attribute) ? 0 : EINVAL) << bit;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, StateTable,
                         ::testing::Values(Type::kRc, Type::kUc, Type::kUd, Type::kXrcSend,
                                           Type::kXrcReceive));

}  // namespace
}  // namespace uroce::qp
