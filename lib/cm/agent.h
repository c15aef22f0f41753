#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tables/timer_wheel.h"
#include "base/values/keyed_hash.h"
#include "base/values/listen_address.h"
#include "base/values/result.h"
#include "base/values/time.h"
#include "cm/connection_table.h"
#include "cm/early_requests.h"
#include "cm/event.h"
#include "cm/half_open.h"
#include "cm/reject_information.h"
#include "cm/released_timewait.h"
#include "cm/state_table.h"
#include "host/connection_rows.h"

namespace uroce::cm {

struct AgentOptions {
  uint64_t ca_guid = 0;  // of this channel adapter, as in its REQs and REPs
  size_t connections_max = 8192;
  size_t listeners_max = 256;
  uint32_t salt = 0;          // random, of the hash tables; never sent
  uint32_t first_number = 0;  // random: where numbers of connections and SIDR requests begin
  HashKey transactions;       // random: transaction ids that were seen do not tell the next
  CommPrefix prefix;          // of all numbers of connections and of SIDR requests
  /// How long a peer waits for the consumer when it has asked twice: 4.096 us times 2 to it. As Linux: 68 s.
  uint8_t service_timeout = 24;
  /// How long a request waits for a listener before it is refused (EarlyRequests); 0: not at all.
  Duration hold_requests = milliseconds(50);
  /// Where the host's service finds what it needs to disconnect connections that this process leaves behind.
  host::ConnectionRows rows = {};
};

/// What has happened to datagrams that led to nothing.
struct AgentCounters {
  uint64_t malformed = 0;
  uint64_t unknown_connection = 0;
  uint64_t no_room = 0;             // a table or a listener's backlog is full
  uint64_t displaced = 0;           // half-open connections that gave way to another host's
  uint64_t timewait_cut_short = 0;  // released connections in TIMEWAIT that gave way in a full table
  uint64_t held = 0;                // requests that waited for a listener
  uint64_t repeated = 0;            // messages sent again
  uint64_t unexpected = 0;          // in this state
  uint64_t foreign = 0;             // of a connection's numbers, with another transaction id than it awaits
};

/// Numbers a listener; 0 is none.
struct ListenerId {
  uint32_t value = 0;
};

/// The InfiniBand communication manager of one port: a state x message table (state_table.h), retries and
/// timewait. Sans-I/O: one thread at a time, time as an argument, datagrams in by receive() and out by
/// pump(). Room for all connections is taken once; what peers send cannot make it grow, and what has no room
/// is dropped, as if lost.
///
/// What a peer holds before it is connected is bounded by us, never by the peer's numbers: half-open
/// connections per listener and in all, with the host that has most giving way first; and the time and number
/// of messages that a REP without an answer takes.
class Agent {
 public:
  /// Half-open connections of a listener whose backlog is smaller. The backlog itself counts only what the
  /// consumer has not taken.
  static constexpr uint32_t kHalfOpenMin = 512;
  /// A REP is sent again after kRepAgain, then after twice as long as before, up to kAgainMax; a DREQ after
  /// kAgainMax; each at most kRepeatsMax times, and sooner or less often if the peer says so. Without an
  /// answer the connection ends after kPatienceMax, or with MRAs for a REP after kMraPatienceMax.
  static constexpr Duration kRepAgain = milliseconds(250);
  static constexpr Duration kAgainMax = seconds(2);
  static constexpr uint8_t kRepeatsMax = 5;
  static constexpr Duration kPatienceMax = seconds(8);
  static constexpr Duration kMraPatienceMax = seconds(60);

  Agent(const AgentOptions& options, Consumer& consumer);
  Agent(const Agent&) = delete;
  Agent& operator=(const Agent&) = delete;

  /// Requests for `service`. At most `backlog` wait until the consumer takes them or decides. When that many
  /// wait, a request from a host that has fewer half-open connections takes the place of one of the host that
  /// has most, whose consumer hears kUnanswered. EADDRINUSE when there is a listener, ENOMEM when there
  /// are too many.
  Result<ListenerId> listen(ServiceId service, const ListenAddress& address, uint32_t backlog,
                            uint64_t consumer);
  /// Requests that wait are rejected.
  void end_listening(ListenerId listener);
  /// The consumer has taken a request and will decide on its own: it counts for the backlog no more, outlives
  /// its listener, and what becomes of it is told to `consumer`. EINVAL when it does not wait any more.
  [[nodiscard]] int take_request(CommId id, uint64_t consumer);

  /// Sends `req`, whose own number is filled in. ENOMEM.
  Result<CommId> connect(const Address& address, const wire::CmReq& req, uint64_t consumer,
                         uint32_t ece_options = 0);
  /// Answers kRequest; both numbers are filled in. EINVAL in any other state.
  [[nodiscard]] int reply(CommId id, const wire::CmRep& rep, uint64_t consumer, uint32_t ece_options = 0);
  /// Answers kReply. EINVAL in any other state, or with more than a RTU carries.
  [[nodiscard]] int ready_to_use(CommId id, std::span<const std::byte> private_data);
  /// Data of the peer came before its RTU, which may have been lost. EINVAL unless REP was sent.
  [[nodiscard]] int established(CommId id);
  /// Instead of reply() or ready_to_use(). `information`: what a REJ of this reason says in addition
  /// (reject_information.h). EINVAL in any other state, or with more than a REJ carries.
  [[nodiscard]] int reject(CommId id, wire::RejectReason reason, std::span<const std::byte> private_data,
                           const RejectInformation& information = {});
  /// EINVAL unless connected, or with more than a DREQ carries.
  [[nodiscard]] int disconnect(CommId id, std::span<const std::byte> private_data);

  /// Sends a SIDR_REQ, and again `retries` times, each `answer_within` after the one before. ENOMEM.
  Result<CommId> resolve_service(const Address& address, const wire::CmSidrReq& req, Duration answer_within,
                                 uint8_t retries, uint64_t consumer);
  /// Answers kServiceRequest, and forgets it. EINVAL in any other state.
  [[nodiscard]] int answer_service(CommId id, const wire::CmSidrRep& rep);

  /// The consumer hears nothing of it any more. What goes on is ended as the protocol wants it.
  void release(CommId id);

  /// The process ends: releases all that there is. A peer that has yet to answer a DREQ is asked again
  /// `repeats` times, each `answer_within` after the one before, however patient the connection was.
  void end(Duration answer_within, uint8_t repeats, Instant now);
  /// Nothing has to be sent, and no peer has yet to answer a DREQ.
  [[nodiscard]] bool has_ended() const { return hanging_up_ == 0 && first_due_ == 0; }

  /// A datagram that came to QP 1 of `address.local` from `address.remote`. Answers to what belongs to no
  /// connection go out through `sink` at once, if there is room.
  void receive(const Address& address, std::span<const std::byte> mad, Instant now, MadSink& sink);
  /// Sends what is due, until `sink` has no room.
  void pump(Instant now, MadSink& sink);
  /// When pump() has something to do, at the earliest; kNever: nothing.
  [[nodiscard]] Instant deadline() const;

  [[nodiscard]] const AgentCounters& counters() const { return counters_; }
  [[nodiscard]] size_t connections() const { return table_.in_use(); }
  /// kFree when there is none.
  [[nodiscard]] State state_of(CommId id);

 private:
  struct Listener {
    bool used = false;
    ServiceId service;
    ListenAddress address;
    uint64_t consumer = 0;
    uint32_t backlog = 0;
    uint32_t waiting = 0;
  };

  /// A datagram, and until when it may wait if it is a request without a listener.
  struct Datagram {
    const Address& address;
    std::span<const std::byte> bytes;
    Instant hold_until;
  };

  // What comes: agent_receive.cc.
  void handle(const Datagram& datagram, Instant now, MadSink& sink);
  void on_req(const Datagram& datagram, const wire::CmMad& mad, Instant now, MadSink& sink);
  void on_sidr_req(const Datagram& datagram, const wire::CmMad& mad, Instant now, MadSink& sink);
  /// False: the request is to be refused at once.
  bool hold(const Datagram& datagram, EarlyRequests::Request request, Instant now);
  void handle_early_requests(Instant now, MadSink& sink);
  void on_answer(const Address& address, const wire::CmMad& mad, Incoming incoming, CommId ours,
                 CommId theirs, Instant now, MadSink& sink);
  void perform(Action action, Connection& connection, const wire::CmMad& mad, Instant now, MadSink& sink);
  void on_rep(Connection& connection, const wire::CmMad& mad);
  void answer_hang_up(Connection& connection, const wire::CmMad& dreq);
  void wait_longer(Connection& connection, const wire::CmMra& mra, Instant now);
  void ask_for_time(Connection& connection);
  /// Counts those that are not.
  bool in_exchange(const Connection& connection, Incoming incoming, const wire::CmMad& mad);
  [[nodiscard]] uint64_t new_transaction();
  Listener* listener_of(ServiceId service, const Gid& address);
  Connection* admit(Listener& listener, State state, const Address& address, CommId theirs);
  bool make_room(Listener& listener, const Gid& host);
  void displace(Connection& connection);

  // What becomes of connections: agent_timers.cc.
  void send(Connection& connection, wire::CmMessage message, uint32_t ece_options = 0);
  void mark_due(Connection& connection);
  void on_timer(Connection& connection, Instant now);
  void give_up(Connection& connection, Instant now);
  void reject_and_close(Connection& connection, wire::CmRej rej);
  void give_up_and_close(Connection& connection);
  void hang_up(Connection& connection, const wire::CmDreq& dreq);
  Connection* allocate();
  void enter_timewait(Connection& connection, Instant now);
  void close(Connection& connection);
  void free_if_done(Connection& connection);
  void no_longer_waiting(Connection& connection);
  void arm_for_answer(Connection& connection, Instant now);
  /// From then on the peer knows of the connection; the row goes with enter_timewait() and close().
  void show(const Connection& connection);
  /// Last of all: the consumer may call back.
  void tell(EventKind kind, const Connection& connection, const wire::CmMad* mad = nullptr);

  Connection* in_state(CommId id, State state);

  const AgentOptions options_;
  Consumer& consumer_;
  ConnectionTable table_;
  host::ConnectionRows rows_;  // one of each index
  HalfOpen half_open_;
  ReleasedTimewait released_timewait_;
  EarlyRequests early_;
  bool listened_ = false;            // since the last pump()
  std::vector<Listener> listeners_;  // [0] is not used
  TimerWheel wheel_;
  uint32_t first_due_ = 0;  // in the order in which they became due
  uint32_t last_due_ = 0;
  size_t hanging_up_ = 0;      // connections that have sent a DREQ
  uint64_t transactions_ = 0;  // that were begun
  AgentCounters counters_;
};

}  // namespace uroce::cm
