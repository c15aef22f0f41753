#include "tests/judge/session.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>

#include "client/failure.h"
#include "tests/judge/lists.h"
#include "tests/judge/outcome.h"

namespace uroce::judge {
namespace {

constexpr uint64_t kRoundsOfConnection = 16;
/// Of a round that comes to a halt.
constexpr uint64_t kAttemptsMax = 3;
constexpr uint32_t kPsnMask = 0xFFFFFF;
constexpr uint8_t kReadDepthMax = 16;
// In wr_id, above the number of the request.
constexpr unsigned kRoundShift = 16;
constexpr unsigned kLooksOfClock = 64;

/// A seed of its own for everything that is to be decided.
uint64_t mixed(uint64_t seed, uint64_t number, uint64_t what) {
  return Random(Random(seed + number).next() + what).next();
}

Connecting decide(uint64_t seed, uint64_t round, bool is_server, uint32_t depth_max) {
  Random random(mixed(seed, round, 3));
  const auto psn = [&random] {
    // Half of them are about to begin anew at 0.
    return static_cast<uint32_t>(random.chance(1, 2) ? kPsnMask - random.below(256) : random.below(kPsnMask));
  };
  const uint32_t of_server = psn();
  const uint32_t of_client = psn();
  return {.own_psn = is_server ? of_server : of_client,
          .peer_psn = is_server ? of_client : of_server,
          .read_depth = static_cast<uint8_t>(1 + random.below(depth_max))};
}

}  // namespace

Session::Session(const Options& options, client::Channel peer)
    : end_(options), channel_(std::move(peer)), windows_(end_), is_server_(options.server.empty()) {}

void Session::say(const std::string& error) { channel_.send({{"error", error}}); }

uint64_t Session::run() {
  const Options& options = end_.options();
  uint64_t performed = 0;
  uint64_t attempts = 0;
  for (uint64_t round = options.round; performed < options.operations;) {
    try {
      const std::optional<uint64_t> requests = try_round(round);
      performed += requests.value_or(0);
      if (requests || ++attempts == kAttemptsMax) {
        ++round;
        attempts = 0;
      }
    } catch (const Wrong& wrong) {
      throw Wrong(fmt::format("round {}: {}\n{}", round, wrong.what(), progress()));
    } catch (const Stall& stall) {
      throw Stall(fmt::format("round {}: {}\n{}", round, stall.what(), progress()));
    } catch (const client::Failure& failure) {
      throw client::Failure(fmt::format("round {}: {}\n{}", round, failure.what(), progress()));
    }
  }
  part();
  return performed;
}

/// Neither end closes the connection before the other has done all.
void Session::part() {
  channel_.send({{"end", end_.options().round}});
  nlohmann::json message = early_ ? std::move(*early_) : channel_.receive();
  while (!message.contains("end")) message = channel_.receive();
}

std::optional<uint64_t> Session::try_round(uint64_t round) {
  try {
    if (!connected_ || round % kRoundsOfConnection == 0) connect(round);
    return run_round(round);
  } catch (const Stall& stall) {
    if (stalls_ == end_.options().stalls_max) throw;
    note_stall(round, stall.what());
    return std::nullopt;
  }
}

/// For the test, which looks for the connection in the frames of that time; and for the peer.
void Session::note_stall(uint64_t round, const std::string& why) {
  ++stalls_;
  connected_ = false;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  fmt::print("halt at {:.6f}, queue pair {}, peer's {}, round {}: {}\n{}\n", now.count(),
             end_.queue_pair_number(), peer_.at("queue_pair").get<uint32_t>(), round, why, progress());
  if (!peer_knows_) channel_.send({{"halt", why}});
}

void Session::connect(uint64_t round) {
  windows_.renew();
  channel_.send(end_.renew());
  // What was said before of a round that came to a halt does not matter any more.
  peer_ = early_ ? std::move(*early_) : channel_.receive();
  early_.reset();
  while (!peer_.contains("queue_pair")) peer_ = channel_.receive();
  peer_knows_ = false;
  const uint32_t depth_max = std::min({static_cast<uint32_t>(end_.read_depth_max()),
                                       peer_.at("read_depth").get<uint32_t>(), uint32_t{kReadDepthMax}});
  end_.connect(peer_, decide(end_.options().seed, round, is_server_, depth_max));
  conditions_ = {.path_mtu = end_.options().path_mtu,
                 .requests_max = end_.options().requests_max,
                 .inline_max = std::min(end_.inline_max(), peer_.at("inline").get<uint32_t>()),
                 .windows = end_.has_windows() && peer_.at("windows").get<bool>()};
  connected_ = true;
}

List Session::make(uint64_t round, bool of_server) const {
  const uint64_t seed = end_.options().seed;
  uint64_t requesters = end_.options().requesters;
  if (requesters == 0) requesters = Random(mixed(seed, round, 2)).below(4);
  Conditions conditions = conditions_;
  conditions.local_requests =
      of_server == is_server_ ? end_.options().local_requests : peer_.at("local").get<bool>();
  List list = make_list(mixed(seed, round, of_server ? 0 : 1), conditions);
  // 1 and 2: one end only.
  if (requesters == (of_server ? 2 : 1)) list.operations.clear();
  return list;
}

uint64_t Session::run_round(uint64_t round) {
  own_ = make(round, is_server_);
  incoming_ = make(round, !is_server_);
  const uint64_t tag = round << kRoundShift;
  requester_.emplace(end_, windows_, own_, tag);
  responder_.emplace(end_, windows_, incoming_, tag);
  const uint64_t count = own_.operations.size() + incoming_.operations.size();
  for (uint32_t i = 0; conditions_.windows && i < kWindows; ++i) {
    perform_local({windows_.bind(i, incoming_.windows[i])});
  }
  responder_->step();
  exchange(round);
  requester_->finish();
  responder_->finish();
  try {
    perform_local(windows_.invalidate_all());
  } catch (const Stall& stall) {
    // The peer has seen the round's end, and is in the next one.
    if (stalls_ == end_.options().stalls_max) throw;
    note_stall(round, stall.what());
  }
  requester_.reset();
  responder_.reset();
  return count;
}

/// Requests that the peer has no part in, one at a time.
void Session::perform_local(std::vector<ibv_send_wr> requests) {
  for (ibv_send_wr& request : requests) {
    end_.post_send(request);
    windows_.posted();
    last_ = {};
    std::span<const ibv_wc> come;
    while ((come = end_.poll()).empty()) idle();
    const auto opcode = request.opcode == IBV_WR_BIND_MW ? IBV_WC_BIND_MW : IBV_WC_LOCAL_INV;
    if (come.size() != 1 || come[0].wr_id != request.wr_id || come[0].opcode != opcode) {
      throw Wrong("a window's request is completed by another completion");
    }
  }
}

void Session::exchange(uint64_t round) {
  channel_.send({{"round", round}, {"keys", windows_.keys()}});
  wait_for_peer("the peer's keys");
  requester_->set_peer({.address = peer_.at("target").get<uint64_t>(),
                        .key = peer_.at("key").get<uint32_t>(),
                        .window_keys = message_.at("keys").get<std::vector<uint32_t>>()});
  last_ = {};
  while (!requester_->is_done() || !responder_->is_done()) {
    requester_->step();
    look();
  }
  channel_.send({{"done", round}});
  wait_for_peer("the peer's completions");
}

void Session::look() {
  responder_->step();
  const std::span<const ibv_wc> come = end_.poll();
  if (come.empty()) return idle();
  last_ = {};
  for (const ibv_wc& completion : come) {
    if ((completion.wr_id & kReceiveBit) != 0) {
      responder_->completed(completion);
    } else {
      requester_->completed(completion);
    }
  }
}

/// Meanwhile the peer's requests go on.
void Session::wait_for_peer(const char* what) {
  last_ = {};
  for (;;) {
    hear();
    if (early_) {
      message_ = std::move(*early_);
      return early_.reset();
    }
    try {
      look();
    } catch (const Stall& stall) {
      throw Stall(fmt::format("{}, while it waits for {}", stall.what(), what));
    }
  }
}

void Session::hear() {
  if (early_) return;
  early_ = channel_.receive_if_any();
  if (!early_ || !early_->contains("halt")) return;
  peer_knows_ = true;
  const std::string why = early_->at("halt");
  early_.reset();
  throw Stall("the peer says: " + why);
}

void Session::idle() {
  client::throw_if_interrupted();
  // The one CPU of a guest has the packets to look after, too.
  sched_yield();
  if (++looks_ % kLooksOfClock != 0) return;
  hear();
  const auto now = std::chrono::steady_clock::now();
  if (last_ == std::chrono::steady_clock::time_point{}) last_ = now;
  // The end that waits for the other's word leaves it the time to say why.
  const bool waits = requester_ && requester_->is_done() && responder_->is_done();
  if (now - last_ > end_.options().patience * (waits ? 3 : 1)) {
    throw Stall(fmt::format("nothing came for {} s", end_.options().patience.count() * (waits ? 3 : 1)));
  }
}

std::string Session::progress() const {
  if (!requester_ || !responder_) return "between rounds";
  return fmt::format("requester: {}\nresponder: {}", requester_->progress(), responder_->progress());
}

}  // namespace uroce::judge
