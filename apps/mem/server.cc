#include "apps/mem/server.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/values/internet_address.h"
#include "client/failure.h"
#include "wire/address_text.h"

namespace uroce::memory_export {
namespace {

constexpr int kBacklog = 128;

uint64_t number_of(const rdma_cm_id* id) { return reinterpret_cast<uintptr_t>(id->context); }

}  // namespace

Server::Server(uint16_t port)
    : messages_(kConnectionsMax * 2 * kMessageBytes), channel_(rdma_create_event_channel()) {
  if (channel_ == nullptr) throw client::failed("no event channel of rdma_cm", errno);
  fcntl(channel_->fd, F_SETFL, fcntl(channel_->fd, F_GETFL) | O_NONBLOCK);
  for (size_t slot = kConnectionsMax; slot > 0; --slot) free_slots_.push_back(slot - 1);
  open_devices();
  listen(port);
}

Server::~Server() {
  for (const auto& [number, request] : unknown_) rdma_destroy_id(request.id);
  rdma_destroy_id(listener_);
  while (!connections_.empty()) end(connections_.begin()->first);
}

void Server::open_devices() {
  int count = 0;
  ibv_context** const all = rdma_get_devices(&count);
  if (all == nullptr || count == 0) throw client::Failure("there is no device of the verbs");
  constexpr int kCompletionsMax = kConnectionsMax * (1 + kSendsMax);
  try {
    for (ibv_context* device : std::span(all, static_cast<size_t>(count)))
      devices_.push_back(std::make_unique<DeviceRegions>(*device, messages_, kCompletionsMax));
  } catch (...) {
    rdma_free_devices(all);
    throw;
  }
  rdma_free_devices(all);
}

void Server::listen(uint16_t port) {
  if (rdma_create_id(channel_.get(), &listener_, nullptr, RDMA_PS_TCP) != 0)
    throw client::failed("rdma_create_id", errno);
  // Of IPv4, too.
  auto address = internet_address("::", port);
  if (rdma_bind_addr(listener_, reinterpret_cast<sockaddr*>(&*address)) != 0 ||
      rdma_listen(listener_, kBacklog) != 0) {
    const int code = errno;
    rdma_destroy_id(listener_);
    throw client::failed(fmt::format("port {}", port), code);
  }
}

Status Server::apply(const Settings& settings) {
  auto wanted = Exports::open(settings.regions, exports_);
  if (!wanted) return wanted.error();
  std::vector<DeviceRegions::Registrations> prepared;
  try {
    for (const auto& device : devices_) prepared.push_back(device->prepare(*wanted));
  } catch (const client::Failure& failure) {
    return Error{ENOMEM, failure.what()};
  }
  for (size_t i = 0; i < devices_.size(); ++i) devices_[i]->take(std::move(prepared[i]));
  wanted->keep();
  exports_ = std::move(*wanted);
  connections_per_client_ = settings.connections_per_client;
  refusal_logged_ = false;
  end_connections_of_removed_regions();
  return {};
}

/// What reads an old directory may do so to its end.
void Server::end_connections_of_removed_regions() {
  std::vector<uint64_t> over;
  for (const auto& [number, connection] : connections_) {
    const SharedRegion& region = connection.registration->region;
    if (!region->name().empty() && exports_.find(region->name(), Where::kHere) != region)
      over.push_back(number);
  }
  for (const uint64_t number : over) end(number);
}

void Server::run(int wake) {
  std::vector<int> ready;
  while (true) {
    wait(wake, ready);
    const auto is_ready = [&](int descriptor) { return std::ranges::find(ready, descriptor) != ready.end(); };
    if (is_ready(wake)) return;
    if (is_ready(channel_->fd)) read_events();
    for (const auto& device : devices_)
      if (is_ready(device->descriptor())) read_completions(*device);
    if (is_ready(flusher_.descriptor())) answer_flushes();
    if (is_ready(lookup_.descriptor())) on_users();
    watch();
  }
}

void Server::wait(int wake, std::vector<int>& ready) const {
  std::vector<pollfd> all;
  const auto add = [&](int descriptor) { all.push_back({descriptor, POLLIN, 0}); };
  add(wake);
  add(channel_->fd);
  add(flusher_.descriptor());
  add(lookup_.descriptor());
  for (const auto& device : devices_) add(device->descriptor());
  ready.clear();
  poll(all.data(), all.size(), connections_.empty() ? -1 : kTickMs);
  for (const pollfd& one : all)
    if (one.revents != 0) ready.push_back(one.fd);
}

void Server::read_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    const rdma_cm_event_type type = event->event;
    rdma_cm_id* const id = event->id;
    const uint8_t reads = event->param.conn.responder_resources;
    const QpNumber peer{event->param.conn.qp_num};
    std::array<std::byte, UINT8_MAX> data{};
    const size_t length = event->param.conn.private_data == nullptr ? 0 : event->param.conn.private_data_len;
    if (length > 0) std::memcpy(data.data(), event->param.conn.private_data, length);
    // An id can be destroyed only when its events are acknowledged.
    rdma_ack_cm_event(event);
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST) {
      on_request({id, reads, peer, std::span<const std::byte>(data).first(length)});
    } else if (type == RDMA_CM_EVENT_DEVICE_REMOVAL) {
      throw client::Failure("a device was removed");
    } else if (id != listener_) {
      on_event(type, number_of(id));
    }
  }
}

void Server::on_event(rdma_cm_event_type type, uint64_t number) {
  const auto at = connections_.find(number);
  if (at == connections_.end()) return;
  if (type != RDMA_CM_EVENT_ESTABLISHED) {
    end(number);
    return;
  }
  at->second.established = true;
  at->second.heard = Clock::now();
}

void Server::on_request(const Request& request) {
  const auto wanted = parse_request(request.private_data);
  if (const auto* why = std::get_if<Refusal>(&wanted); why != nullptr) return refuse(request.id, *why);
  const std::string& name = std::get<std::string>(wanted);
  if (exports_.find(name, Where::kHere) == nullptr) return refuse(request.id, Refusal::kUnknownName);
  if (!is_of_this_host(*request.id)) return admit(request, name, {.host = peer_of(*request.id)});
  // The one that has waited for longest has the least to lose: its program asks again.
  if (unknown_.size() == kUnknownMax) {
    refuse(unknown_.begin()->second.id, Refusal::kBusy);
    unknown_.erase(unknown_.begin());
  }
  lookup_.submit(
      {.number = ++last_question_, .address = peer_of(*request.id), .queue_pair = request.queue_pair});
  unknown_.emplace(last_question_, Unknown{request.id, request.responder_resources, name});
}

/// The host's service has said whose requests are.
void Server::on_users() {
  for (const UserAnswer& answer : lookup_.take()) {
    const auto asked = unknown_.extract(answer.number);
    if (asked.empty()) continue;
    const Unknown& request = asked.mapped();
    admit({.id = request.id,
           .responder_resources = request.responder_resources,
           .queue_pair = {},
           .private_data = {}},
          request.region, {.user = answer.user});
  }
}

void Server::admit(const Request& request, const std::string& name, const Client& client) {
  // It may have ceased to be exported meanwhile.
  const Where where = client.host == Gid{} ? Where::kHere : Where::kElsewhere;
  const SharedRegion region = exports_.find(name, where);
  if (region == nullptr) {
    if (exports_.find(name, Where::kHere) != nullptr) say_refused(client);
    return refuse(request.id, Refusal::kUnknownName);
  }
  if (has_too_many(client)) return refuse(request.id, Refusal::kClientBusy);
  if (!make_room(client)) return refuse(request.id, Refusal::kBusy);
  if (!accept(request, *region, client)) refuse(request.id, Refusal::kFailed);
}

/// Once for each configuration: strangers write no log.
void Server::say_refused(const Client& client) {
  if (std::exchange(refusal_logged_, true)) return;
  fmt::print(stderr,
             "uroce mem serve: {} asks for what only this host may have: allow_any_host = true in a table "
             "[[memory]] is for all\n",
             wire::to_text(client.host));
}

size_t Server::count_of(const Client& client) const {
  return static_cast<size_t>(
      std::ranges::count_if(connections_, [&](const auto& entry) { return entry.second.client == client; }));
}

bool Server::has_too_many(const Client& client) const { return count_of(client) >= connections_per_client_; }

void Server::refuse(rdma_cm_id* id, Refusal why) {
  const RefusalBytes data = encode(why);
  rdma_reject(id, data.data(), data.size());
  rdma_destroy_id(id);
}

/// A handshake that is not over takes milliseconds, so the oldest one is the least likely to be honest. Where
/// all are over, the oldest connection of the client with most gives way to one with fewer: no client
/// keeps others out by being there first.
bool Server::make_room(const Client& client) {
  if (!free_slots_.empty()) return true;
  auto goes = std::ranges::find_if(connections_, [](const auto& entry) { return !entry.second.established; });
  if (goes == connections_.end()) {
    size_t most = count_of(client);
    for (auto at = connections_.begin(); at != connections_.end(); ++at) {
      const size_t count = count_of(at->second.client);
      if (count <= most) continue;
      most = count;
      goes = at;
    }
  }
  if (goes == connections_.end()) return false;
  end(goes->first);
  return true;
}

bool Server::accept(const Request& request, const Region& region, const Client& client) {
  const auto device =
      std::ranges::find(devices_, request.id->verbs, [](const auto& one) { return one->device(); });
  if (device == devices_.end()) return false;
  const SharedRegistration registration = (*device)->find(region);
  ibv_qp_init_attr wanted{};
  wanted.send_cq = wanted.recv_cq = (*device)->completions();
  wanted.qp_type = IBV_QPT_RC;
  wanted.cap = {.max_send_wr = kSendsMax, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1};
  if (rdma_create_qp(request.id, registration->domain.get(), &wanted) != 0) return false;
  uint8_t timeout = kAckTimeout;
  rdma_set_option(request.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
  const uint64_t number = ++last_number_;
  const Connection connection{.id = request.id,
                              .client = client,
                              .registration = registration,
                              .slot = free_slots_.back(),
                              .since = Clock::now()};
  request.id->context = reinterpret_cast<void*>(static_cast<uintptr_t>(number));
  const std::span<std::byte> granted = region.bytes();
  const GrantBytes grant = encode(Grant{.address = reinterpret_cast<uintptr_t>(granted.data()),
                                        .length = granted.size(),
                                        .key = registration->memory->rkey,
                                        .writable = region.writable()});
  rdma_conn_param param{};
  param.private_data = grant.data();
  param.private_data_len = grant.size();
  param.responder_resources = std::min(request.responder_resources, (*device)->reads_max());
  param.rnr_retry_count = 7;
  if (!post_receive(number, connection) || rdma_accept(request.id, &param) != 0) {
    rdma_destroy_qp(request.id);
    return false;
  }
  free_slots_.pop_back();
  connections_.emplace(number, connection);
  return true;
}

void Server::end(uint64_t number) {
  const auto at = connections_.find(number);
  if (at == connections_.end()) return;
  rdma_disconnect(at->second.id);
  rdma_destroy_qp(at->second.id);
  rdma_destroy_id(at->second.id);
  free_slots_.push_back(at->second.slot);
  connections_.erase(at);
}

void Server::watch() {
  const Clock::time_point now = Clock::now();
  if (now < next_watch_) return;
  next_watch_ = now + std::chrono::milliseconds(kTickMs);
  std::vector<uint64_t> over;
  for (auto& [number, connection] : connections_) {
    if (!connection.established) {
      if (now - connection.since >= kHandshake) over.push_back(number);
    } else if (now - connection.heard >= kProbeInterval && !connection.probing) {
      if (!probe(number, connection)) over.push_back(number);
    }
  }
  for (const uint64_t number : over) end(number);
}

}  // namespace uroce::memory_export
