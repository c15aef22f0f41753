#include "service/left_connections.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/values/contract.h"
#include "host/shared_device.h"

namespace uroce::service {

void LeftConnections::add(NumberBlock numbers, uid_t user, std::vector<host::OpenConnection> connections,
                          Instant now) {
  forget(numbers);
  const size_t room = std::min(kOfUserMax - of_user_[user], kMax - held_);
  connections.resize(std::min(connections.size(), room));
  if (connections.empty()) return;
  of_user_[user] += connections.size();
  held_ += connections.size();
  const Turn turn{.at = now, .order = ++last_turn_, .program = numbers.first};
  programs_[numbers.first] = {
      .numbers = numbers, .user = user, .left = now, .turn = turn, .connections = std::move(connections)};
  turns_.insert(turn);
}

void LeftConnections::forget(NumberBlock numbers) {
  auto at = programs_.upper_bound(numbers.first);
  if (at != programs_.begin() && std::prev(at)->second.numbers.contains({numbers.first})) --at;
  while (at != programs_.end() && at->first < numbers.first + numbers.count) erase(at++);
}

void LeftConnections::erase(Programs::iterator at) {
  ClientProcess& program = at->second;
  held_ -= program.connections.size();
  const auto of_user = of_user_.find(program.user);
  of_user->second -= program.connections.size();
  if (of_user->second == 0) of_user_.erase(of_user);
  turns_.erase(program.turn);
  programs_.erase(at);
}

void LeftConnections::postpone(ClientProcess& program, Instant until) {
  turns_.erase(program.turn);
  program.turn.at = until;
  program.turn.order = ++last_turn_;
  turns_.insert(program.turn);
}

void LeftConnections::answered(wire::CommId local, wire::CommId remote, const Gid& source) {
  const QpNumber owner = host::owner_of_comm_id(local.value);
  const auto after = programs_.upper_bound(owner.value);
  if (after == programs_.begin()) return;
  ClientProcess& program = std::prev(after)->second;
  if (!program.numbers.contains(owner)) return;
  // A program may have written an id twice.
  for (host::OpenConnection& told :
       std::ranges::equal_range(program.connections, local.value, {}, &host::OpenConnection::local))
    if (told.remote == remote.value && told.remote_address == source) told.remote = 0;
}

Instant LeftConnections::deadline() const {
  if (turns_.empty()) return kNever;
  return std::max(turns_.begin()->at, full_at_ - kEach * (kBurst - 1));
}

bool LeftConnections::find_unanswered(ClientProcess& program, Instant now) {
  const auto& all = program.connections;
  for (size_t passed = 0; program.place < all.size() && all[program.place].remote == 0; ++program.place) {
    if (++passed <= kPassedOverMax) continue;
    postpone(program, now);
    return false;
  }
  if (program.place < all.size()) return true;
  program.place = 0;
  ++program.round;
  postpone(program, program.left + (program.round < kRounds ? kRound * program.round : kKept));
  return false;
}

const host::OpenConnection* LeftConnections::next(Instant now) {
  constexpr int kProgramsMax = 8;  // that one call looks at
  if (full_at_ - now > kEach * (kBurst - 1)) return nullptr;
  for (int i = 0; i < kProgramsMax && !turns_.empty() && turns_.begin()->at <= now; ++i) {
    const auto at = programs_.find(turns_.begin()->program);
    UROCE_ASSERT(at != programs_.end());
    ClientProcess& program = at->second;
    if (now - program.left >= kKept) {
      erase(at);
    } else if (find_unanswered(program, now)) {
      chosen_ = &program;
      return &program.connections[program.place];
    }
  }
  return nullptr;
}

void LeftConnections::sent(Instant now) {
  full_at_ = std::max(full_at_, now) + kEach;
  ++chosen_->place;
  postpone(*chosen_, now);  // behind those that wait since before
}

}  // namespace uroce::service
