#include "apps/mem/user_lookup.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "client/failure.h"
#include "drivers/port/host/attachment.h"
#include "drivers/port/host/socket_path.h"

namespace uroce::memory_export {

UserLookup::UserLookup() : done_signal_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  if (done_signal_ < 0) throw client::failed("eventfd", errno);
  thread_ = std::thread([this] { run(); });
}

UserLookup::~UserLookup() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  wanted_.notify_one();
  thread_.join();
  close(done_signal_);
}

void UserLookup::submit(const Question& question) {
  {
    const std::lock_guard guard(mutex_);
    // What was asked first has been given up, or soon is.
    if (questions_.size() == kQuestionsMax) questions_.pop_front();
    questions_.push_back(question);
  }
  wanted_.notify_one();
}

std::vector<UserLookup::Answer> UserLookup::take() {
  uint64_t count = 0;
  if (read(done_signal_, &count, sizeof count) < 0) return {};
  const std::lock_guard guard(mutex_);
  return std::exchange(answers_, {});
}

void UserLookup::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    wanted_.wait(lock, [this] { return stop_ || !questions_.empty(); });
    if (stop_) return;
    const Question question = questions_.front();
    questions_.pop_front();
    lock.unlock();
    const auto user =
        drivers::find_user(drivers::service_socket_path(), question.address, question.queue_pair);
    lock.lock();
    answers_.push_back({question.number, user ? std::optional(*user) : std::nullopt});
    constexpr uint64_t kOne = 1;
    if (write(done_signal_, &kOne, sizeof kOne) < 0) continue;  // EAGAIN: it is readable already
  }
}

}  // namespace uroce::memory_export
