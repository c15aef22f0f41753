#include "verbs/calls/event_pipe.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <climits>
#include <vector>

#include "base/process/cancellation.h"
#include "base/values/contract.h"

namespace uroce::verbs {

namespace {

/// What an unprivileged process may ask for: 130,000 completion events.
constexpr int kPipeBytesMax = 1 << 20;

}  // namespace

void EventPipe::close() {
  const CancellationDisabled held;  // also within a destructor
  // Once: another pipe may get the numbers.
  for (int* const descriptor : {&read_fd_, &write_fd_}) {
    if (is_end(*descriptor)) ::close(*descriptor);
    *descriptor = -1;
  }
}

int EventPipe::open() {
  UROCE_ASSERT(record_bytes_ <= kBytesMax && PIPE_BUF % record_bytes_ == 0);
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) return errno;
  read_fd_ = ends[0];
  write_fd_ = ends[1];
  struct stat status {};
  if (fstat(read_fd_, &status) != 0) return errno;
  inode_ = status.st_ino;
  // The two ends have flags of their own, so the application's O_NONBLOCK and ours do not meet.
  return fcntl(write_fd_, F_SETFL, O_NONBLOCK) == 0 ? 0 : errno;
}

bool EventPipe::is_end(int descriptor) const {
  struct stat status {};
  return descriptor >= 0 && fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode) &&
         status.st_ino == inode_;
}

bool EventPipe::push(const void* record) {
  const CancellationDisabled held;  // within a turn, or under a lock
  // Without a read end a SIGPIPE would be the program's end.
  if (!is_end(write_fd_) || !is_end(read_fd_)) return false;
  const auto written = [&] {
    return write(write_fd_, record, record_bytes_) == static_cast<ssize_t>(record_bytes_);
  };
  if (written()) return true;
  return errno == EAGAIN && fcntl(write_fd_, F_SETPIPE_SZ, kPipeBytesMax) > 0 && written();
}

bool EventPipe::empty() const {
  int waiting = 0;
  return ioctl(read_fd_, FIONREAD, &waiting) != 0 || waiting == 0;
}

int EventPipe::pop(void* record) {
  if (!is_end(read_fd_)) return EBADF;
  // Writes are atomic and of one size, so a read gets a whole record.
  const ssize_t got = [&] {
    const CancellableWait waiting;
    return read(read_fd_, record, record_bytes_);
  }();
  if (got < 0) return errno;
  return got == static_cast<ssize_t>(record_bytes_) ? 0 : EIO;
}

size_t EventPipe::remove_if(const std::function<bool(const void*)>& unwanted) {
  const CancellationDisabled held;
  const std::lock_guard guard(removal_);
  if (!is_end(read_fd_)) return 0;
  int waiting = 0;
  if (ioctl(read_fd_, FIONREAD, &waiting) != 0 || waiting <= 0) return 0;
  std::vector<std::byte> records(static_cast<size_t>(waiting));
  iovec piece{records.data(), records.size()};
  // Unlike read(), this can be told not to block whatever flags the application gave the read end.
  const ssize_t got = vmsplice(read_fd_, &piece, 1, SPLICE_F_NONBLOCK);
  size_t removed = 0;
  for (ssize_t at = 0; at < got; at += static_cast<ssize_t>(record_bytes_)) {
    if (unwanted(&records[static_cast<size_t>(at)])) {
      ++removed;
    } else {
      push(&records[static_cast<size_t>(at)]);
    }
  }
  return removed;
}

}  // namespace uroce::verbs
