// Decision: descriptors are closed by a thread that may hang, since close() may wait for SO_LINGER or for a
// user's FUSE daemon. A signal ends the former, and another thread takes over from one that hangs. Cost: a
// hung close delays the end of a killed service, and of its lock.
#include "service/descriptor_closer.h"

#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <ctime>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "engine/platform/clock.h"
#include "engine/platform/thread.h"

namespace uroce::service {
namespace {

/// The signal that ends an interruptible wait in close(). Without a handler it is ignored.
constexpr int kInterrupt = SIGURG;
constexpr long kInterruptEachNs = 200'000;

void on_interrupt(int) {}

void handle_interrupt() {
  struct sigaction action {};
  action.sa_handler = on_interrupt;  // without SA_RESTART
  sigaction(kInterrupt, &action, nullptr);
}

/// Sends the calling thread a signal every 0.2 ms while it closes something. A lingering socket is closed by
/// then, and the kernel goes on sending its data.
class Interrupter {
 public:
  Interrupter() {
    sigevent event{};
    event.sigev_notify = SIGEV_THREAD_ID;
    event.sigev_signo = kInterrupt;
    event._sigev_un._tid = static_cast<pid_t>(syscall(SYS_gettid));  // glibc has no other name for it
    made_ = timer_create(CLOCK_MONOTONIC, &event, &timer_) == 0;
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, kInterrupt);
    pthread_sigmask(SIG_UNBLOCK, &one, nullptr);
  }
  ~Interrupter() {
    if (made_) timer_delete(timer_);
  }
  Interrupter(const Interrupter&) = delete;
  Interrupter& operator=(const Interrupter&) = delete;

  void set(bool on) const {
    const timespec each{.tv_sec = 0, .tv_nsec = on ? kInterruptEachNs : 0};
    const itimerspec times{.it_interval = each, .it_value = each};
    if (made_) timer_settime(timer_, 0, &times, nullptr);
  }

 private:
  timer_t timer_{};
  bool made_ = false;
};

/// What waits in a connection would be an error for its other end, which may have an answer yet to read.
/// Without room for descriptors the kernel closes them, in this thread.
void discard_unread(int socket) {
  char byte = 0;
  while (recv(socket, &byte, sizeof byte, MSG_DONTWAIT | MSG_TRUNC) > 0 || errno == EINTR) errno = 0;
}

}  // namespace

struct DescriptorCloser::Job {
  uid_t user = 0;
  bool counts = false;  // for admits()
  bool connection = false;
  std::vector<Descriptor> descriptors;
};

struct DescriptorCloser::Shared {
  explicit Shared(Close how) : close(std::move(how)) {}

  const Close close;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Job> waiting;
  size_t waiting_descriptors = 0;
  std::map<uid_t, size_t> unfinished;  // messages with descriptors
  size_t unfinished_messages = 0;      // of all users
  size_t threads = 0;                  // that hang ones, too
  uint64_t started = 0;
  uint64_t active = 0;  // number of the thread that takes what waits; 0: none
  uint64_t job = 0;     // that is under way there; 0: none
  uint64_t jobs = 0;
  uid_t job_user = 0;
  bool stopping = false;
};

DescriptorCloser::DescriptorCloser(Close close) : shared_(std::make_shared<Shared>(std::move(close))) {
  handle_interrupt();
  start_thread();
}

DescriptorCloser::~DescriptorCloser() {
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  const Instant until = engine::clock_now() + seconds(1);
  while ((!shared_->waiting.empty() || shared_->job != 0) && engine::clock_now() < until) {
    lock.unlock();
    look(engine::clock_now());
    lock.lock();
    shared_->changed.wait_for(lock, std::chrono::milliseconds(5));
  }
  // The end of the process closes the rest.
  for (Job& job : shared_->waiting)
    for (Descriptor& descriptor : job.descriptors) (void)descriptor.release();
  shared_->waiting.clear();
}

void DescriptorCloser::close(uid_t user, std::vector<Descriptor> descriptors) {
  if (descriptors.empty()) return;
  add({.user = user, .counts = true, .connection = false, .descriptors = std::move(descriptors)});
}

void DescriptorCloser::close_memory(uid_t user, Descriptor memory) {
  Job job{.user = user, .counts = false, .connection = false, .descriptors = {}};
  job.descriptors.push_back(std::move(memory));
  add(std::move(job));
}

void DescriptorCloser::close_connection(uid_t user, Descriptor socket) {
  if (!socket.ok()) return;
  shutdown(socket.get(), SHUT_RDWR);
  Job job{.user = user, .counts = false, .connection = true, .descriptors = {}};
  job.descriptors.push_back(std::move(socket));
  add(std::move(job));
}

void DescriptorCloser::add(Job job) {
  const std::lock_guard guard(shared_->mutex);
  if (job.counts) {
    ++shared_->unfinished[job.user];
    ++shared_->unfinished_messages;
  }
  shared_->waiting_descriptors += job.descriptors.size();
  shared_->waiting.push_back(std::move(job));
  shared_->changed.notify_all();
}

bool DescriptorCloser::admits(uid_t user) const {
  if (user == 0 || user == geteuid()) return true;
  const std::lock_guard guard(shared_->mutex);
  const auto its = shared_->unfinished.find(user);
  const size_t count = its == shared_->unfinished.end() ? 0 : its->second;
  return count < kUnfinishedOfUserMax && shared_->unfinished_messages < kUnfinishedMax;
}

bool DescriptorCloser::full() const {
  const std::lock_guard guard(shared_->mutex);
  return shared_->waiting_descriptors >= kWaitingMax;
}

std::optional<uid_t> DescriptorCloser::look(Instant now) {
  std::optional<uid_t> hung;
  looked_at_ = now;
  {
    const std::lock_guard guard(shared_->mutex);
    if (shared_->job != seen_job_) {
      seen_job_ = shared_->job;
      seen_at_ = now;
    }
    const bool hangs = seen_job_ != 0 && now - seen_at_ >= kPatience;
    if (shared_->active != 0 && (!hangs || shared_->threads >= kThreadsMax)) return std::nullopt;
    if (hangs) hung = shared_->job_user;
    shared_->active = 0;
    shared_->job = seen_job_ = 0;
  }
  start_thread();
  return hung;
}

Instant DescriptorCloser::deadline() const {
  const std::lock_guard guard(shared_->mutex);
  const bool idle = shared_->job == 0 && shared_->waiting.empty();
  if (idle || shared_->threads >= kThreadsMax) return kNever;
  return (shared_->job == seen_job_ && seen_job_ != 0 ? seen_at_ : looked_at_) + kPatience;
}

/// Without a new thread look() tries again.
void DescriptorCloser::start_thread() {
  uint64_t number = 0;
  {
    const std::lock_guard guard(shared_->mutex);
    number = shared_->active = ++shared_->started;
    ++shared_->threads;
  }
  auto thread =
      engine::Thread::start("uroce-closer", {}, [shared = shared_, number] { work(shared, number); });
  if (thread) return thread->abandon();
  const std::lock_guard guard(shared_->mutex);
  shared_->active = 0;
  --shared_->threads;
}

void DescriptorCloser::work(const std::shared_ptr<Shared>& shared, uint64_t number) {
  const Interrupter interrupter;
  std::unique_lock lock(shared->mutex);
  while (shared->active == number) {
    if (shared->waiting.empty() && shared->stopping) break;
    if (shared->waiting.empty()) {
      shared->changed.wait(lock);
      continue;
    }
    Job job = std::move(shared->waiting.front());
    shared->waiting.pop_front();
    shared->waiting_descriptors -= job.descriptors.size();
    shared->job = ++shared->jobs;
    shared->job_user = job.user;
    lock.unlock();
    interrupter.set(true);
    for (Descriptor& descriptor : job.descriptors) {
      if (job.connection) discard_unread(descriptor.get());
      if (shared->close) {
        shared->close(std::move(descriptor));
      } else {
        descriptor = Descriptor();
      }
    }
    job.descriptors.clear();  // those that were exchanged above
    interrupter.set(false);
    lock.lock();
    if (shared->active == number) shared->job = 0;
    if (job.counts) {
      --shared->unfinished_messages;
      if (--shared->unfinished[job.user] == 0) shared->unfinished.erase(job.user);
    }
    shared->changed.notify_all();
  }
  --shared->threads;
  shared->changed.notify_all();
}

}  // namespace uroce::service
