// A change is reported at once, and again [robustness variable] - 1 times after random delays, since reports
// may be lost. A query is answered after a random delay within the time that it allows; a second one before
// that changes nothing but the time, which may come sooner.
//
// Two bounds hold whatever queriers send: a group is reported to them ten times a second at most, and
// reports of all groups leave kReportsMax each kReportsEvery at most.
//
// Decision: reports of other hosts are not read, and suppress none of ours. A snooping switch wants one from
// each port (RFC 4541 2.1.1), and a forged one could end what we receive. Cost: more reports and leave
// messages to older queriers.
#include "net/memberships.h"

#include <algorithm>
#include <array>

#include "net/vlan_tag.h"

namespace uroce::net {
namespace {

// RFC 3376 8 and RFC 3810 9: what holds until a querier says otherwise.
constexpr uint8_t kRobustness = 2;
constexpr Duration kQueryInterval = seconds(125);
constexpr Duration kQueryResponseInterval = seconds(10);
// Within which a change is reported again.
constexpr Duration kUnsolicitedInterval = seconds(1);
constexpr Duration kUnsolicitedIntervalOlder = seconds(10);

constexpr Instant kAtOnce{};

}  // namespace

Memberships::Memberships(const Options& options)
    : options_(options), random_(options.seed), robustness_(kRobustness), query_interval_(kQueryInterval) {}

MembershipProtocol Memberships::protocol(Instant now) const {
  const bool older = now < older_until_;
  if (!options_.ipv4) return older ? MembershipProtocol::kMldV1 : MembershipProtocol::kMldV2;
  if (now < igmp_v1_until_) return MembershipProtocol::kIgmpV1;
  return older ? MembershipProtocol::kIgmpV2 : MembershipProtocol::kIgmpV3;
}

void Memberships::join(const Gid& address) {
  if (!is_ours(address)) return;
  auto group = std::ranges::find(groups_, address, &Group::address);
  if (group == groups_.end()) group = groups_.insert(groups_.end(), {.address = address});
  if (group->users++ == 0) begin_change(*group);
}

void Memberships::leave(const Gid& address) {
  const auto group = std::ranges::find(groups_, address, &Group::address);
  if (group == groups_.end() || group->users == 0 || --group->users > 0) return;
  group->answer_due = kNever;
  begin_change(*group);
  forget_left();
}

void Memberships::begin_change(Group& group) {
  group.changes_left = robustness_;
  group.change_sent = false;
  group.change_due = kAtOnce;
  deadline_ = kAtOnce;
}

/// Forgets one of more than kLeftMax groups: that whose report has been sent most often.
void Memberships::forget_left() {
  const auto left = std::ranges::count(groups_, 0u, &Group::users);
  if (static_cast<size_t>(left) <= kLeftMax) return;
  const auto key = [](const Group& group) { return group.users == 0 ? group.changes_left : UINT8_MAX; };
  groups_.erase(std::ranges::min_element(groups_, {}, key));
}

Duration Memberships::any_delay(Duration most) {
  return {static_cast<int64_t>(random_.below(static_cast<uint64_t>(most.ns) + 1))};
}

/// RFC 3376 7.2.1, RFC 3810 8.2.1: the version that is in use follows the oldest querier of late.
void Memberships::note_querier(const MembershipQuery& query, Instant now) {
  if (has_records(query.protocol)) {
    robustness_ = query.robustness != 0 ? query.robustness : kRobustness;
    query_interval_ = query.query_interval > Duration{} ? query.query_interval : kQueryInterval;
    return;
  }
  const MembershipProtocol before = protocol(now);
  const Instant until = now + query_interval_ * robustness_ + kQueryResponseInterval;
  (query.protocol == MembershipProtocol::kIgmpV1 ? igmp_v1_until_ : older_until_) = until;
  if (protocol(now) != before) cancel_timers();
}

/// A change of the version cancels pending answers and repetitions. A change that was not reported yet still
/// is.
void Memberships::cancel_timers() {
  for (Group& group : groups_) {
    group.answer_due = kNever;
    if (!group.change_sent) continue;
    group.changes_left = 0;
    group.change_due = kNever;
  }
  std::erase_if(groups_, [](const Group& group) { return group.users == 0 && group.changes_left == 0; });
}

bool Memberships::receive(const MembershipQuery& query, Instant now) {
  if (is_ipv4(query.protocol) != options_.ipv4) return false;
  note_querier(query, now);
  // One report for all groups needs one delay; otherwise each group has its own.
  const Duration common = any_delay(query.max_response);
  const bool together = has_records(protocol(now));
  for (Group& group : groups_) {
    if (group.users == 0 || (query.group && *query.group != group.address)) continue;
    const Instant due = now + (together ? common : any_delay(query.max_response));
    group.answer_due = std::min(group.answer_due, std::max(due, group.answered + kAnswersEvery));
    deadline_ = std::min(deadline_, group.answer_due);
  }
  return true;
}

/// A change says all that an answer would.
std::optional<MembershipRecordType> Memberships::due(const Group& group, Instant now) {
  if (group.change_due <= now)
    return group.users > 0 ? MembershipRecordType::kJoined : MembershipRecordType::kLeft;
  if (group.answer_due <= now) return MembershipRecordType::kIsMember;
  return std::nullopt;
}

void Memberships::note_sent(Group& group, MembershipRecordType type, Instant now, Duration repeat_in) {
  if (group.answer_due <= now) {
    group.answer_due = kNever;
    group.answered = now;
  }
  if (type == MembershipRecordType::kIsMember) return;
  group.change_sent = true;
  --group.changes_left;
  group.change_due = group.changes_left > 0 ? now + repeat_in : kNever;
}

size_t Memberships::pump(Instant now, const Gid& source, port::TxBatch& batch) {
  if (now < deadline_) return 0;
  const MembershipProtocol version = protocol(now);
  const bool together = has_records(version);
  const size_t records_max = together ? MembershipReport::kRecordsMax : 1;
  const Duration repeat_in = any_delay(together ? kUnsolicitedInterval : kUnsolicitedIntervalOlder);
  std::array<MembershipRecord, MembershipReport::kRecordsMax> records;
  std::array<Group*, MembershipReport::kRecordsMax> reported;
  Instant earliest{};
  size_t sent = 0;
  size_t count = 0;
  const auto flush = [&] {
    if (count == 0) return true;
    if (sent == kReportsMax) earliest = now + kReportsEvery;
    if (sent == kReportsMax || !send({records.data(), count}, version, source, batch)) return false;
    for (size_t i = 0; i < count; ++i) note_sent(*reported[i], records[i].type, now, repeat_in);
    count = 0;
    ++sent;
    return true;
  };
  bool going = true;
  for (auto group = groups_.begin(); going && group != groups_.end(); ++group) {
    const auto type = due(*group, now);
    if (!type) continue;
    // Older versions say once that we left, and IGMPv1 not at all.
    if (!together && *type == MembershipRecordType::kLeft) group->changes_left = 1;
    records[count] = {*type, group->address};
    reported[count++] = &*group;
    if (count == records_max) going = flush();
  }
  if (going) (void)flush();
  std::erase_if(groups_, [](const Group& group) { return group.users == 0 && group.changes_left == 0; });
  set_deadline(earliest);
  return sent;
}

void Memberships::set_deadline(Instant earliest) {
  deadline_ = kNever;
  for (const Group& group : groups_)
    deadline_ = std::min(deadline_, std::min(group.change_due, group.answer_due));
  if (deadline_ != kNever) deadline_ = std::max(deadline_, earliest);
}

bool Memberships::send(std::span<const MembershipRecord> records, MembershipProtocol version,
                       const Gid& source, port::TxBatch& batch) const {
  port::TxFrame* const frame = batch.next();
  if (frame == nullptr) return false;
  const std::span<std::byte> buffer(frame->data, frame->capacity);
  frame->length = write_membership_report(
      buffer, {.protocol = version, .source_mac = options_.mac, .source = source, .records = records});
  if (frame->length == 0) return true;
  if (options_.vlan != 0) frame->length = put_tag(buffer, frame->length, options_.vlan);
  frame->to_self = frame->to_group = false;
  batch.commit();
  return true;
}

}  // namespace uroce::net
