// A neighbour's event of the kernel concerns only what is reached by that neighbour, and only if its MAC
// changed. Otherwise a host with many addresses could make every path be resolved again. A change of routes
// concerns all.
#include "engine/device/host_interface.h"

#include <fmt/format.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/process/cancellation.h"
#include "engine/device/device.h"
#include "engine/device/device_state.h"

namespace uroce::engine {
namespace {

/// How often the kernel is looked at that is finding something out: it tells, too, but not of everything.
constexpr int kLookEveryMs = 20;

constexpr uint32_t kGroups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_NEIGH |
                             RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;

}  // namespace

Result<std::unique_ptr<HostInterface>> HostInterface::open(const std::string& name) {
  const auto failed = [&](int code, const std::string& what) {
    return Error{code, fmt::format("interface {}: {}", name, what)};
  };
  const unsigned index = if_nametoindex(name.c_str());
  if (index == 0) return failed(ENODEV, "there is none of that name");
  auto events = RtNetlink::open(kGroups);
  if (!events) return failed(events.error().code, events.error().message);
  auto questions = RtNetlink::open(0);
  if (!questions) return failed(questions.error().code, questions.error().message);
  const auto link = questions->link(index);
  const auto addresses = questions->addresses(index);
  if (!link || !addresses) return failed(ENODEV, "the kernel does not say what it is");
  if (!link->ethernet) return failed(ENOTSUP, "is no Ethernet interface");
  auto discards = DiscardSocket::open(name, index);
  if (!discards) return failed(discards.error().code, discards.error().message);
  std::unique_ptr<HostInterface> interface(
      new HostInterface(index, std::move(*events), std::move(*questions), std::move(*discards)));
  if (interface->wake_ < 0) return failed(EMFILE, "no descriptor is left");
  interface->addresses_ = *addresses;
  interface->mac_ = link->mac;
  return interface;
}

HostInterface::HostInterface(unsigned index, RtNetlink events, RtNetlink questions, DiscardSocket discards)
    : index_(index),
      events_(std::move(events)),
      questions_socket_(std::move(questions)),
      discards_(std::move(discards)),
      groups_(index),
      wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

HostInterface::~HostInterface() {
  stop();
  if (wake_ >= 0) close(wake_);
}

Status HostInterface::start(Device& device, DeviceState& state) {
  device_ = &device;
  state_ = &state;
  show_addresses();
  auto thread = Thread::start("uroce-kernel", {}, [this] { follow(); });
  if (!thread) return thread.error();
  thread_.emplace(std::move(*thread));
  return {};
}

void HostInterface::ask_to_stop() {
  stopping_.store(true, std::memory_order_relaxed);  // only needs to be seen; joining orders the rest
  wake();
}

void HostInterface::stop() {
  ask_to_stop();
  if (thread_) thread_->join();
}

void HostInterface::abandon() {
  if (thread_) thread_->abandon();
}

std::optional<Gid> HostInterface::source_to(const Gid& destination) const {
  auto netlink = RtNetlink::open(0);
  if (!netlink) return std::nullopt;
  const auto way = netlink->way_to(destination, index_);
  return way ? way->source : std::nullopt;
}

void HostInterface::wake() const {
  const CancellationDisabled held;  // within a turn
  constexpr uint64_t kOne = 1;
  // EAGAIN: the thread is awake already.
  if (write(wake_, &kOne, sizeof kOne) < 0) return;
}

/// The interface is one link, whatever it is made of: its kernel puts tags into frames.
void HostInterface::ask(const Gid& address, uint16_t) {
  {
    const std::lock_guard guard(mutex_);
    asked_.push_back(address);
  }
  wake();
}

void HostInterface::follow() {
  compare_addresses();  // what has changed since it was opened
  compare_link();
  while (!stopping_.load(std::memory_order_relaxed)) {
    wait();
    take_events();
    take_questions();
    answer_questions();
  }
}

void HostInterface::wait() {
  pollfd sources[] = {{.fd = events_.descriptor(), .events = POLLIN, .revents = 0},
                      {.fd = wake_, .events = POLLIN, .revents = 0}};
  (void)poll(sources, std::size(sources), open_.empty() ? -1 : kLookEveryMs);
  uint64_t count = 0;
  if (read(wake_, &count, sizeof count) < 0) return;  // it was not that
}

void HostInterface::take_events() {
  bool addresses = false;
  bool link = false;
  bool ways = false;
  std::vector<RtNetlink::Notice> hops;
  const bool all = events_.receive([&](const RtNetlink::Notice& notice) {
    const uint16_t type = notice.type;
    if (notice.interface_index != 0 && notice.interface_index != index_) return;
    addresses |= type == RTM_NEWADDR || type == RTM_DELADDR;
    link |= type == RTM_NEWLINK;
    ways |= type == RTM_NEWROUTE || type == RTM_DELROUTE;
    if (type == RTM_NEWNEIGH || type == RTM_DELNEIGH) hops.push_back(notice);
  });
  if (addresses || !all) compare_addresses();
  if (link || !all) compare_link();
  forget(ways || !all, hops);
}

/// A neighbour's event concerns what is reached by that neighbour alone, and only when its MAC is another:
/// a stranger that makes the kernel see many neighbours does not make us resolve others again.
void HostInterface::forget(bool all, std::span<const RtNetlink::Notice> hops) {
  if (!all && hops.empty()) return;
  state_->pollers[0]->run([&](qp::Turn&) {
    net::Neighbours& neighbours = state_->links.of(0);
    if (all) return neighbours.forget();
    for (const RtNetlink::Notice& hop : hops) neighbours.forget_hop(hop.address, hop.mac);
  });
}

void HostInterface::take_questions() {
  std::vector<Gid> asked;
  {
    const std::lock_guard guard(mutex_);
    asked.swap(asked_);
  }
  for (const Gid& address : asked)
    if (std::ranges::find(open_, address, &Question::address) == open_.end()) open_.push_back({address});
}

void HostInterface::answer_questions() {
  std::erase_if(open_, [this](Question& question) { return answer(question); });
}

bool HostInterface::answer(Question& question) {
  const auto way = questions_socket_.way_to(question.address, index_);
  if (!way) {
    tell(question.address, question.address, std::nullopt, net::Resolution::kOffLink);
    return true;
  }
  const RtNetlink::Neighbour neighbour = questions_socket_.neighbour(way->hop, index_);
  const bool first_look = !std::exchange(question.solicited, true);
  switch (neighbour.known) {
    case RtNetlink::Known::kOnceWas:
      // Should it be wrong, the next one to ask gets another.
      discards_.solicit(way->hop);
      [[fallthrough]];
    case RtNetlink::Known::kYes:
      tell(question.address, way->hop, neighbour.mac, net::Resolution::kKnown);
      return true;
    case RtNetlink::Known::kSilent:
      if (!first_look) {
        tell(question.address, way->hop, std::nullopt, net::Resolution::kNoAnswer);
        return true;
      }
      [[fallthrough]];
    case RtNetlink::Known::kNo:
      discards_.solicit(way->hop);
      return false;
    case RtNetlink::Known::kAsked:
      return false;
  }
  return false;
}

void HostInterface::tell(const Gid& address, const Gid& hop, std::optional<MacAddress> mac,
                         net::Resolution otherwise) {
  state_->pollers[0]->run([&](qp::Turn& turn) {
    net::Neighbours& neighbours = state_->links.of(0);
    if (mac) {
      neighbours.resolved(address, hop, *mac, turn.now);
    } else {
      neighbours.resolution_failed(address, otherwise);
    }
  });
}

void HostInterface::compare_addresses() {
  const auto now = questions_socket_.addresses(index_);
  if (!now) return;
  const net::GidTable before = device_->gids();
  for (size_t i = 1; i < before.size(); ++i) {
    const auto same = std::ranges::find(*now, before.at(i), &InterfaceAddress::address);
    if (before.in_use(i) && same == now->end()) device_->remove_address(before.at(i));
  }
  // What is there already is refused: addresses that have stayed, and the link-local one of the MAC.
  for (const InterfaceAddress& address : *now) device_->add_address(address);
  show_addresses();
}

void HostInterface::show_addresses() {
  const net::GidTable gids = device_->gids();
  std::vector<Gid> ours;
  for (size_t i = 0; i < gids.size(); ++i)
    if (gids.in_use(i)) ours.push_back(gids.at(i));
  state_->port->follow_addresses(ours);
}

void HostInterface::compare_link() {
  const auto link = questions_socket_.link(index_);
  if (!link) return;
  // Relaxed: it is nothing but a number.
  state_->interface_mtu.store(link->mtu, std::memory_order_relaxed);
  // Paths and the GUID are made of the old one.
  if (link->mac != mac_ && !std::exchange(has_another_mac_, true))
    state_->listeners.raise(DeviceEvent::kFatal);
}

}  // namespace uroce::engine
