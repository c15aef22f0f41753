#include "cm/state_table.h"

#include <array>

namespace uroce::cm {
namespace {

using Row = std::array<Action, kIncomingCount>;

// clang-format off
constexpr std::array<Row, kStateCount> table() {
  using enum Action;
  constexpr Action no = kIgnore;
  std::array<Row, kStateCount> rows{};  // kIgnore
  const auto row = [&](State state) -> Row& { return rows[static_cast<size_t>(state)]; };
  //                          REQ          MRA    REJ       REP          RTU           DREQ     DREP     LAP          APR
  row(State::kReqSent) =     {no,          kWait, kRefused, kReplied,    no,           no,      no,      no,          no};
  row(State::kReqReceived) = {kAskForTime, no,    kRefused, no,          no,           no,      no,      no,          no};
  row(State::kRepReceived) = {no,          no,    kRefused, kAskForTime, no,           kHangUp, no,      no,          no};
  row(State::kRepSent) =     {kRepeat,     kWait, kRefused, no,          kEstablished, kHangUp, no,      no,          no};
  row(State::kEstablished) = {no,          no,    kHungUp,  kRepeat,     no,           kHangUp, no,      kRefusePath, no};
  row(State::kDreqSent) =    {no,          no,    kHungUp,  no,          no,           kHangUp, kHungUp, no,          no};
  row(State::kTimewait) =    {kStale,      no,    no,       no,          no,           kIsHungUp, no,    no,          no};
  row(State::kSidrReqSent)[static_cast<size_t>(Incoming::kSidrRep)] = kResolved;
  return rows;
}
// clang-format on

constexpr std::array<Row, kStateCount> kTable = table();

}  // namespace

Action action_of(State state, Incoming incoming) {
  return kTable[static_cast<size_t>(state)][static_cast<size_t>(incoming)];
}

}  // namespace uroce::cm
