#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/random.h"
#include "base/values/time.h"
#include "net/membership_message.h"
#include "port/tx_batch.h"

namespace uroce::net {

/// The host's side of IGMP (RFC 3376) or MLD (RFC 3810) on one link: reports of the groups that we are a
/// member of, when that changes and when a querier asks. While an older querier is present, in the older
/// version's messages (RFC 2236, RFC 2710).
///
/// Sans-I/O: one thread at a time, time as an argument, frames out through a batch. Only join() allocates. A
/// peer's bytes make it hold nothing but times, and its reports have a rate.
class Memberships {
 public:
  /// Reports of one pump(); the next follow kReportsEvery later at the earliest.
  static constexpr size_t kReportsMax = 16;
  static constexpr Duration kReportsEvery = milliseconds(10);
  /// A group is reported to queriers at this rate at most.
  static constexpr Duration kAnswersEvery = milliseconds(100);
  /// Groups that we have left, and whose reports are not all sent yet.
  static constexpr size_t kLeftMax = 64;

  struct Options {
    bool ipv4 = false;  // the family
    MacAddress mac;
    uint16_t vlan = 0;  // reports get its tag; 0: none
    uint64_t seed = 0;  // of delays
  };
  explicit Memberships(const Options& options);

  /// One user more of the group, and one less; the first and the last one are reported. A group of the other
  /// family, or one that is not is_reported(), is ignored.
  void join(const Gid& group);
  void leave(const Gid& group);

  /// False: a query of the other family.
  bool receive(const MembershipQuery& query, Instant now);

  /// Sends the reports that are due, and returns how many. `source`: an address of ours on the link.
  size_t pump(Instant now, const Gid& source, port::TxBatch& batch);

  /// When pump() has something to do, at the earliest.
  [[nodiscard]] Instant deadline() const { return deadline_; }
  /// The version that is in use now.
  [[nodiscard]] MembershipProtocol protocol(Instant now) const;

 private:
  struct Group {
    Gid address;
    uint32_t users = 0;        // 0: left
    uint8_t changes_left = 0;  // reports of the last change that are still to be sent
    bool change_sent = false;  // at least once
    Instant change_due = kNever;
    Instant answer_due = kNever;  // to a querier
    Instant answered{INT64_MIN / 2};
  };

  [[nodiscard]] bool is_ours(const Gid& group) const {
    return group.is_ipv4() == options_.ipv4 && is_reported(group);
  }
  void begin_change(Group& group);
  void forget_left();
  void note_querier(const MembershipQuery& query, Instant now);
  void cancel_timers();
  [[nodiscard]] Duration any_delay(Duration most);
  /// What is due of the group, if anything.
  [[nodiscard]] static std::optional<MembershipRecordType> due(const Group& group, Instant now);
  void note_sent(Group& group, MembershipRecordType type, Instant now, Duration repeat_in);
  bool send(std::span<const MembershipRecord> records, MembershipProtocol protocol, const Gid& source,
            port::TxBatch& batch) const;
  void set_deadline(Instant earliest);

  const Options options_;
  Random random_;
  std::vector<Group> groups_;
  uint8_t robustness_;
  Duration query_interval_;
  Instant igmp_v1_until_{INT64_MIN / 2};  // a querier of that version is present
  Instant older_until_{INT64_MIN / 2};    // likewise: IGMPv2, MLDv1
  Instant deadline_ = kNever;
};

}  // namespace uroce::net
