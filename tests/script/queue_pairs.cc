// Objects of a script, and what is posted to them.
#include "performance.h"
#include "wire/address_text.h"

namespace uroce::script {

namespace {

using qp::State;
using qp::Type;

constexpr uint32_t kDepth = 512;
constexpr uint32_t kSegments = 4;
constexpr uint32_t kInlineBytes = 512;
constexpr uint32_t kQkey = 0x11111111;

constexpr Named<Type> kTypes[] = {{"rc", Type::kRc},
                                  {"uc", Type::kUc},
                                  {"ud", Type::kUd},
                                  {"xrc_send", Type::kXrcSend},
                                  {"xrc_recv", Type::kXrcReceive}};
constexpr Named<State> kStates[] = {{"reset", State::kReset}, {"init", State::kInit}, {"rtr", State::kRtr},
                                    {"rts", State::kRts},     {"sqd", State::kSqd},   {"sqe", State::kSqe},
                                    {"err", State::kErr}};
constexpr Named<PathMtu> kMtus[] = {{"256", PathMtu::k256},
                                    {"512", PathMtu::k512},
                                    {"1024", PathMtu::k1024},
                                    {"2048", PathMtu::k2048},
                                    {"4096", PathMtu::k4096}};

mem::Access access_of(const Line& line, const std::string& text) {
  constexpr Named<mem::Access> kRights[] = {{"none", mem::Access()},
                                            {"write", mem::kRemoteWrite},
                                            {"read", mem::kRemoteRead},
                                            {"atomic", mem::kRemoteAtomic},
                                            {"flush", mem::kFlushGlobal}};
  mem::Access access;
  for (const std::string& word : split(text)) access = access | value_of(line, kRights, word, "right");
  return access;
}

qp::Attributes attributes_in(Line& line) {
  const auto byte = [&](const char* key, uint64_t otherwise) {
    return static_cast<uint8_t>(line.number(key, otherwise));
  };
  qp::Attributes attributes;
  attributes.path = Stage::path_to_peer(line.flag("ipv6"));
  if (const auto peer = line.option("peer")) attributes.path.destination = wire::parse_ip(*peer).value();
  attributes.path_mtu = value_of(line, kMtus, line.option("mtu").value_or("256"), "path MTU");
  attributes.rq_psn = Psn(static_cast<uint32_t>(line.number("rq_psn", 1000)));
  attributes.sq_psn = Psn(static_cast<uint32_t>(line.number("sq_psn", 100)));
  attributes.max_rd_atomic = byte("max_rd_atomic", 4);
  attributes.max_dest_rd_atomic = byte("max_dest_rd_atomic", 4);
  attributes.min_rnr_timer = byte("min_rnr_timer", 12);
  attributes.timeout = byte("timeout", 14);
  attributes.retry_count = byte("retry_cnt", 7);
  attributes.rnr_retry = byte("rnr_retry", 7);
  attributes.qkey = static_cast<uint32_t>(line.number("qkey", kQkey));
  attributes.access = access_of(line, line.option("access").value_or("write,read,atomic,flush"));
  return attributes;
}

}  // namespace

void Performance::region(Line& line) { stage_.memory().add(line); }
void Performance::deregister(Line& line) { stage_.memory().remove(line); }

void Performance::shared_receives(Line& line) {
  const std::string name = line.next("name of the queue");
  const auto depth = static_cast<uint32_t>(line.number("depth", kDepth));
  SharedReceives& shared = stage_.add_shared_receives(line, name, depth, line.flag("xrc"));
  if (const auto limit = line.number("limit"))
    shared.receives->queue.set_limit(static_cast<uint32_t>(*limit));
}

/// qp TYPE [NAME] [state=] [path MTU, PSNs, ...]
void Performance::queue_pair(Line& line) {
  engine::QueuePairOptions options{.type = value_of(line, kTypes, line.next("type"), "type"),
                                   .send_depth = kDepth,
                                   .receive_depth = kDepth,
                                   .send_segments = kSegments,
                                   .receive_segments = kSegments,
                                   .inline_bytes = kInlineBytes};
  if (options.type == Type::kXrcReceive)
    options.send_depth = options.receive_depth = options.inline_bytes = 0;
  if (options.type == Type::kXrcSend) options.receive_depth = 0;
  const qp::Attributes attributes = attributes_in(line);
  const std::string name = line.has_next() ? line.next("name") : "q";
  if (const auto shared = line.option("srq"))
    options.shared_receives = stage_.shared_receives(line, *shared).receives.get();
  actor_ = &stage_.add_queue_pair(line, name, options);
  actor_->attributes = attributes;
  actor_->attributes.destination = actor_->peer;
  bring_up(line, *actor_, line.option("state").value_or("rts"));
}

void Performance::bring_up(const Line& line, Actor& actor, const std::string& state) {
  using namespace qp;
  const State goal = value_of(line, kStates, state, "state");
  const bool requester = actor.type == Type::kRc || actor.type == Type::kXrcSend;
  const bool responder = actor.type == Type::kRc || actor.type == Type::kXrcReceive;
  const bool datagrams = actor.type == Type::kUd;
  if (goal == State::kReset) return;
  step(line, actor, State::kInit, kMaskPkeyIndex | kMaskPort | (datagrams ? kMaskQkey : kMaskAccessFlags));
  if (goal == State::kInit) return;
  const AttributeMask connected = kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn;
  step(line, actor, State::kRtr,
       (datagrams ? AttributeMask{} : connected) |
           (responder ? kMaskMaxDestRdAtomic | kMaskMinRnrTimer : AttributeMask{}));
  if (goal == State::kRtr) return;
  step(line, actor, State::kRts,
       kMaskSqPsn | (requester || responder ? kMaskTimeout : AttributeMask{}) |
           (requester ? kMaskRetryCount | kMaskRnrRetry | kMaskMaxRdAtomic : AttributeMask{}));
  if (goal != State::kRts) step(line, actor, goal, {});
}

void Performance::step(const Line& line, Actor& actor, State state, qp::AttributeMask mask) {
  actor.attributes.state = state;
  const int error =
      stage_.device().modify_queue_pair(*actor.queue_pair, actor.attributes, mask | qp::kMaskState);
  if (error != 0) line.fail("modify: error " + std::to_string(error));
  act();
}

void Performance::on(Line& line) { actor_ = &stage_.actor(line, line.next("name of the queue pair")); }

/// modify STATE [notify] [refused=ERRNO], each way between states with what it needs.
void Performance::modify(Line& line) {
  expect_silence(line);
  Actor& actor = this->actor(line);
  const std::string name = line.next("state");
  const State state = value_of(line, kStates, name, "state");
  if (state == State::kInit || state == State::kRtr) return bring_up(line, actor, name);
  const State from = stage_.device().query_queue_pair(*actor.queue_pair).state;
  qp::AttributeMask mask;
  if (state == State::kRts && from == State::kRtr) line.fail("there is state= for that");
  actor.attributes.notify_drained = line.flag("notify");
  if (actor.attributes.notify_drained) mask |= qp::kMaskEnSqdAsyncNotify;
  step(line, actor, state, mask);
}

void Performance::destroy(Line& line) {
  expect_silence(line);
  Actor& actor = this->actor(line);
  stage_.destroy(actor);
  actor_ = nullptr;
  stage_.settle();
}

void Performance::state(Line& line) {
  ++expectations_;
  const State expected = value_of(line, kStates, line.next("state"), "state");
  const State found = stage_.device().query_queue_pair(*actor(line).queue_pair).state;
  if (found != expected) line.fail("the state is " + name_of(kStates, found));
}

void Performance::attach(Line& line) {
  const Gid group = wire::parse_ip(line.next("address of the group")).value();
  if (const int error = stage_.device().attach_group(*actor(line).queue_pair, group); error != 0)
    line.fail("attach: error " + std::to_string(error));
  actor_->groups.push_back(group);
}

}  // namespace uroce::script
