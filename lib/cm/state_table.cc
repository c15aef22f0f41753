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
  row(State::kRepReceived) = {no,          no,    kRefused, kAskForTime, no,           kAnswerDreq, no,      no,          no};
  row(State::kRepSent) =     {kRepeat,     kWait, kRefused, no,          kEstablished, kAnswerDreq, no,      no,          no};
  row(State::kEstablished) = {no,          no,    kDrepReceived,  kRepeat,     no,           kAnswerDreq, no,      kRefusePath, no};
  row(State::kDreqSent) =    {no,          no,    kDrepReceived,  no,          no,           kAnswerDreq, kDrepReceived, no,          no};
  row(State::kTimewait) =    {kStale,      no,    no,       no,          no,           kRepeatDrep, no,    no,          no};
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
