#include "tests/sim/crowd.h"

#include <algorithm>
#include <array>

#include "tests/sim/bring_up.h"
#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr Duration kTooLong = seconds(30);  // without anything that completes
constexpr uint32_t kBytesMax = 3000;
constexpr uint32_t kDatagramMax = 1024;
constexpr uint32_t kQkey = 0x1234567;

MacAddress mac_of(size_t host) { return {{2, 0, 0, 0, 0, static_cast<uint8_t>(host + 1)}}; }
Gid address_of(size_t host) { return Gid::from_ipv4({10, 0, 0, static_cast<uint8_t>(host + 1)}); }

}  // namespace

Crowd::Crowd(const Options& options) : options_(options), random_(options.seed), turns_(~options.seed) {
  std::vector<WireEnd*> ends;
  for (size_t i = 0; i < kHosts; ++i) {
    auto end = std::make_unique<WireEnd>(WireEnd::Options{.mac = mac_of(i),
                                                          .path = path_of(options.conditions),
                                                          .seed = random_.next(),
                                                          .queues = options.pollers,
                                                          .steering = options.steering});
    ends.push_back(end.get());
    hosts_.push_back(std::make_unique<Host>(std::move(end), host_options(i)));
    turns_.add(*hosts_.back());
  }
  WireEnd::join(ends);
  const bool in_order = options.conditions.reordering == 0 && options.conditions.duplication == 0 &&
                        (options.pollers == 1 || options.steering == Steering::kHash);
  server_ = std::make_unique<CrowdServer>(*hosts_[0], kBytesMax, in_order, random_.next());
  for (size_t i = 1; i < kHosts; ++i)
    clients_.push_back(std::make_unique<CrowdClient>(*hosts_[i], options.messages, random_.next()));
  datagrams_ = &server_->add_queue_pair(qp::Type::kUd);
  bring_up(*hosts_[0], *datagrams_, qp::Type::kUd, attributes(*hosts_[0], *hosts_[1]));
  for (uint32_t i = 0; i < options.members; ++i) add_member(i);
}

Host::Options Crowd::host_options(size_t index) const {
  Host::Options host{.device = {.addresses = {{address_of(index), 24}}}, .mode = options_.mode};
  for (size_t other = 0; !options_.ask_neighbours && other < kHosts; ++other) {
    if (other != index) host.device.neighbours.push_back({address_of(other), mac_of(other)});
  }
  return host;
}

qp::Attributes Crowd::attributes(Host& from, Host& to) const {
  qp::Attributes attributes;
  attributes.path.source = from.device().gids().at(1);
  attributes.path.destination = to.device().gids().at(1);
  attributes.qkey = kQkey;
  attributes.path_mtu = PathMtu::k1024;
  attributes.timeout = 8;
  attributes.retry_count = 7;
  attributes.rnr_retry = 7;
  attributes.min_rnr_timer = 4;
  attributes.max_rd_atomic = attributes.max_dest_rd_atomic = 4;
  return attributes;
}

void Crowd::add_member(uint32_t index) {
  constexpr std::array kTypes = {qp::Type::kRc, qp::Type::kUc, qp::Type::kUd};
  const qp::Type type = kTypes[index % kTypes.size()];
  const bool datagrams = type == qp::Type::kUd;
  CrowdClient& client = *clients_[random_.below(clients_.size())];
  engine::QpSlot& from = client.add_queue_pair(type);
  engine::QpSlot& to = datagrams ? *datagrams_ : server_->add_queue_pair(type);

  qp::Attributes there = attributes(client.host(), server_->host());
  qp::Attributes back = attributes(server_->host(), client.host());
  there.path_mtu = back.path_mtu = static_cast<PathMtu>(1 + random_.below(5));
  there.destination = to.number;
  back.destination = from.number;
  there.sq_psn = back.rq_psn = Psn(static_cast<uint32_t>(random_.next()));
  there.rq_psn = back.sq_psn = Psn(Psn::kMask - static_cast<uint32_t>(random_.below(10)));
  if (!datagrams) bring_up(server_->host(), to, type, back);
  bring_up(client.host(), from, type, there);

  const Member member{.index = index,
                      .type = type,
                      .seed = random_.next(),
                      .bytes_max = datagrams ? kDatagramMax : kBytesMax,
                      .client = from.number,
                      .server = to.number};
  std::optional<qp::DatagramAddress> address;
  if (datagrams) {
    address = client.host().device().take_address(there.path).value();
    client.host().device().give_back_address();
  }
  server_->add(member);
  client.add(member, address);
}

std::string Crowd::run() {
  while (!done()) {
    bool busy = turns_.round();
    if (VirtualClock::now() >= next_act_) {
      act();
      busy = true;
    }
    if (std::string wrong = failure(); !wrong.empty()) return wrong;
    turns_.advance(busy, next_act_);
    if (const uint64_t completed = messages() + received(); completed != progress_) {
      progress_ = completed;
      progress_at_ = VirtualClock::now();
    }
    if (VirtualClock::now() - progress_at_ > kTooLong) return "stuck";
  }
  std::string wrong;
  for (const auto& client : clients_) wrong += client->close();
  return wrong + server_->close();
}

void Crowd::act() {
  for (const auto& client : clients_) client->act();
  server_->act();
  next_act_ = VirtualClock::now() + nanoseconds(static_cast<int64_t>(random_.below(20'000)));
}

bool Crowd::done() const {
  return server_->idle() && std::ranges::all_of(clients_, [](const auto& client) { return client->idle(); });
}

std::string Crowd::failure() const {
  for (const auto& client : clients_) {
    if (!client->failure().empty()) return client->failure();
  }
  for (const auto& host : hosts_) {
    if (!host->failure().empty()) return host->failure();
  }
  return server_->failure();
}

uint64_t Crowd::counter(Counter counter) const {
  uint64_t sum = 0;
  for (const auto& host : hosts_) sum += host->device().counter(counter);
  return sum;
}

uint64_t Crowd::messages() const {
  uint64_t sum = 0;
  for (const auto& client : clients_) sum += client->completed();
  return sum;
}

}  // namespace uroce::sim
