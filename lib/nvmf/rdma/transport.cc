// Decision: the program may turn the target's pollers itself (turn()), so that the CPU time of both ends can
// be measured on one thread.
#include "nvmf/rdma/transport.h"

#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/values/internet_address.h"
#include "nvmf/subsystem/target.h"

namespace uroce::nvmf {
namespace {

constexpr int kBacklog = 128;

bool is_any(const std::string& address) { return address == "0.0.0.0" || address == "::"; }

Error failure(const std::string& address, uint16_t port, int code) {
  return {code, address + " port " + std::to_string(port) + ": " + std::strerror(code)};
}

}  // namespace

Result<std::unique_ptr<RdmaTransport>> RdmaTransport::open(Target& target, const RdmaOptions& options) {
  rdma_event_channel* channel = rdma_create_event_channel();
  if (channel == nullptr)
    return Error{errno, std::string("no event channel of rdma_cm: ") + std::strerror(errno)};
  fcntl(channel->fd, F_SETFL, fcntl(channel->fd, F_GETFL) | O_NONBLOCK);
  return std::unique_ptr<RdmaTransport>(new RdmaTransport(target, options, *channel));
}

RdmaTransport::RdmaTransport(Target& target, const RdmaOptions& options, rdma_event_channel& channel)
    : target_(target),
      regions_(std::make_shared<RdmaRegions>()),
      channel_(&channel),
      connections_(target, options, regions_),
      thread_([this] { run(); }) {}

Status RdmaTransport::listen(const std::string& address, uint16_t port) {
  std::optional<sockaddr_storage> parsed = internet_address(address, port);
  if (!parsed) return Error{EINVAL, "'" + address + "' is no IPv4 or IPv6 address"};
  const std::lock_guard guard(mutex_);
  if (listeners_.contains({address, port})) return failure(address, port, EEXIST);
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, nullptr, RDMA_PS_TCP) != 0) return failure(address, port, errno);
  int family_only = 1;
  if (rdma_set_option(id, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &family_only, sizeof(family_only)) != 0 ||
      rdma_bind_addr(id, reinterpret_cast<sockaddr*>(&*parsed)) != 0 || rdma_listen(id, kBacklog) != 0) {
    const int code = errno;
    rdma_destroy_id(id);
    return failure(address, port, code);
  }
  listeners_[{address, port}] = id;
  if (is_any(address)) return {};
  return target_.add_listener({.address_family = static_cast<uint8_t>(parsed->ss_family == AF_INET ? 1 : 2),
                               .address = address,
                               .service = std::to_string(port)});
}

Status RdmaTransport::stop_listening(const std::string& address, uint16_t port) {
  std::unique_lock guard(mutex_);
  const auto found = listeners_.extract({address, port});
  guard.unlock();
  if (found.empty()) return failure(address, port, ENOENT);
  rdma_destroy_id(found.mapped());
  return is_any(address) ? Status{} : target_.remove_listener(address, std::to_string(port));
}

void RdmaTransport::stop() {
  if (!thread_.joinable()) return;
  while (true) {
    std::unique_lock guard(mutex_);
    if (listeners_.empty()) break;
    const auto [address, port] = listeners_.begin()->first;
    guard.unlock();
    static_cast<void>(stop_listening(address, port));
  }
  stopping_.store(true);
  wakes_.wake();
  thread_.join();
}

void RdmaTransport::run() {
  while (true) {
    wait();
    static_cast<void>(wakes_.take());
    read_cm_events();
    connections_.read_device_events();
    connections_.read_reports();
    connections_.watch();
    if (!stopping_.load()) continue;
    if (connections_.empty()) return;
    connections_.end_all();
  }
}

void RdmaTransport::wait() const {
  std::vector<pollfd> waiting{{.fd = channel_->fd, .events = POLLIN, .revents = 0},
                              {.fd = wakes_.fd(), .events = POLLIN, .revents = 0}};
  for (const int descriptor : connections_.descriptors())
    waiting.push_back({.fd = descriptor, .events = POLLIN, .revents = 0});
  ::poll(waiting.data(), waiting.size(), connections_.watch_ms());
}

void RdmaTransport::read_cm_events() {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    RdmaConnections::CmEvent copy{event->event, event->id, event->param.conn, {}};
    const size_t length = std::min<size_t>(copy.param.private_data_len, copy.private_data.size());
    if (copy.param.private_data != nullptr) {
      std::memcpy(copy.private_data.data(), copy.param.private_data, length);
    } else {
      copy.param.private_data_len = 0;
    }
    copy.param.private_data = nullptr;
    rdma_ack_cm_event(event);
    connections_.on_cm_event(copy);
  }
}

}  // namespace uroce::nvmf
