// With poller.idle = "interrupt" this thread waits at the sockets of a port, and makes the first turn before
// it wakes the poller's thread. Threads of pollers sleep at a futex, where other programs of the host wake
// them, and no call waits for a futex and a socket at once. The watch is armed before the poller looks for
// the last time, so no frame waits. Cost: a thread, and a look every 4 ms that keeps the protocol's clock
// right (perf/run --only idle).
#include "engine/scheduling/frame_watch.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace uroce::engine {

namespace {

Error failure(const char* what) {
  const int code = errno;
  return {code, std::string("poller.idle: ") + what + ": " + std::strerror(code)};
}

Status add(const Descriptor& set, int descriptor, uint32_t events) {
  epoll_event event{.events = events, .data = {.fd = descriptor}};
  if (epoll_ctl(set.get(), EPOLL_CTL_ADD, descriptor, &event) != 0) return failure("epoll_ctl");
  return {};
}

/// An interface that went down leaves an error in its sockets, of which each wait would hear again.
void take_error(int socket) {
  int error = 0;
  socklen_t length = sizeof error;
  (void)getsockopt(socket, SOL_SOCKET, SO_ERROR, &error, &length);
}

}  // namespace

Status FrameWatch::start(FrameEvents events, std::span<const uint32_t> processors,
                         std::function<void()> arrived) {
  events_ = std::move(events);
  arrived_ = std::move(arrived);
  set_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!set_.ok()) return failure("epoll_create1");
  stop_ = Descriptor(eventfd(0, EFD_CLOEXEC));
  if (!stop_.ok()) return failure("eventfd");
  if (Status status = add(set_, stop_.get(), EPOLLIN); !status) return status;
  for (const int descriptor : events_.descriptors) {
    if (Status status = add(set_, descriptor, EPOLLONESHOT); !status) return status;
  }
  auto thread = Thread::start("uroce-watch", processors, [this] { watch(); });
  if (!thread) return thread.error();
  thread_.emplace(std::move(*thread));
  return {};
}

void FrameWatch::stop() {
  if (!started()) return;
  (void)eventfd_write(stop_.get(), 1);
  thread_->join();
  thread_.reset();
  set_ = Descriptor();  // it would keep the sockets of a port open
  stop_ = Descriptor();
}

void FrameWatch::abandon() {
  if (!started()) return;
  thread_->abandon();
  thread_.reset();
}

void FrameWatch::arm() {
  // A report that crosses this is of a frame which the caller finds when it looks once more.
  if (armed_.exchange(true, std::memory_order_acq_rel)) return;  // pairs with watch()
  if (events_.port != nullptr) events_.port->arm_events();
  for (const int descriptor : events_.descriptors) {
    epoll_event event{.events = EPOLLIN | EPOLLONESHOT, .data = {.fd = descriptor}};
    (void)epoll_ctl(set_.get(), EPOLL_CTL_MOD, descriptor, &event);
  }
}

void FrameWatch::watch() {
  std::array<epoll_event, 16> events;
  while (true) {
    const int count = epoll_wait(set_.get(), events.data(), events.size(), -1);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0)
      return;  // the program has closed what is not its own: pollers sleep, and look by themselves
    if (events_.port != nullptr) events_.port->disarm_events();
    armed_.store(false, std::memory_order_release);  // pairs with arm()
    bool frames = false;
    for (const epoll_event& event : std::span(events).first(static_cast<size_t>(count))) {
      if (event.data.fd == stop_.get()) return;
      if ((event.events & EPOLLERR) != 0) take_error(event.data.fd);
      frames |= (event.events & EPOLLIN) != 0;
    }
    if (frames) arrived_();
  }
}

}  // namespace uroce::engine
