#include "drivers/block/file/backing.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace uroce::drivers {
namespace {

constexpr uint32_t kSectorBytes = 512;
constexpr uint32_t kPageBytes = 4096;

Error refusal(const std::string& path, int error) {
  if (error == EBUSY) return {EBUSY, "file " + path + ": in use (mounted, or claimed by another program)"};
  return {error, "file " + path + ": " + strerrordesc_np(error)};
}

/// The kernel holds a file for a moment after its process has ended, until it has taken its io_uring down. A
/// target that is started anew must not fail for that.
template <typename Attempt>
int until_free(int busy, Attempt attempt) {
  constexpr std::chrono::seconds kHeldMax{2};
  constexpr std::chrono::milliseconds kPause{10};
  const auto last = std::chrono::steady_clock::now() + kHeldMax;
  int outcome = attempt();
  while (outcome < 0 && errno == busy && std::chrono::steady_clock::now() < last) {
    std::this_thread::sleep_for(kPause);
    outcome = attempt();
  }
  return outcome;
}

int open_as(const std::string& path, int flags) {
  int file;
  do {
    file = ::open(path.c_str(), flags | O_CLOEXEC);
  } while (file < 0 && errno == EINTR);
  return file;
}

}  // namespace

Result<Backing> Backing::open(const std::string& path, bool read_only) {
  struct stat status;
  // Before it is opened: that of a FIFO or a tape has effects.
  if (::stat(path.c_str(), &status) != 0) return refusal(path, errno);
  if (S_ISDIR(status.st_mode)) return refusal(path, EISDIR);
  if (!S_ISREG(status.st_mode) && !S_ISBLK(status.st_mode))
    return Error{ENOTSUP, "file " + path + ": neither a regular file nor a block device"};
  const int claim = S_ISBLK(status.st_mode) && !read_only ? O_EXCL : 0;
  const int flags = (read_only ? O_RDONLY : O_RDWR) | claim;
  int file = until_free(EBUSY, [&] { return open_as(path, flags | O_DIRECT); });
  const bool direct = file >= 0;
  if (!direct && errno == EINVAL) file = open_as(path, flags);  // a file system without O_DIRECT
  if (file < 0) return refusal(path, errno);
  Backing backing(path, file, direct);
  if (Status status_of = backing.lock(read_only); !status_of) return status_of.error();
  if (Status status_of = backing.measure(); !status_of) return status_of.error();
  backing.find_alignments();
  return backing;
}

Backing::~Backing() {
  if (file_ >= 0) ::close(file_);
}

Status Backing::lock(bool read_only) const {
  const int kind = (read_only ? LOCK_SH : LOCK_EX) | LOCK_NB;
  if (until_free(EWOULDBLOCK, [&] { return ::flock(file_, kind); }) == 0) return {};
  if (errno == EWOULDBLOCK)
    return Error{EBUSY, "file " + path_ + ": in use (another program holds its lock)"};
  return failure("flock", errno);
}

Status Backing::measure() {
  struct stat status;
  if (::fstat(file_, &status) != 0) return failure("fstat", errno);
  block_device_ = S_ISBLK(status.st_mode);
  bytes_ = static_cast<uint64_t>(status.st_size);
  if (block_device_ && ::ioctl(file_, BLKGETSIZE64, &bytes_) != 0) return failure("BLKGETSIZE64", errno);
  return {};
}

/// What the kernel says (since 6.1), or a block device's logical block, or what a read of the beginning
/// shows.
void Backing::find_alignments() {
  if (!direct_) return;
  struct statx status = {};
  if (::statx(file_, "", AT_EMPTY_PATH, STATX_DIOALIGN, &status) == 0 &&
      (status.stx_mask & STATX_DIOALIGN) != 0) {
    offset_alignment_ = status.stx_dio_offset_align;
    memory_alignment_ = status.stx_dio_mem_align;
  } else if (int logical = 0; block_device_ && ::ioctl(file_, BLKSSZGET, &logical) == 0) {
    offset_alignment_ = memory_alignment_ = static_cast<uint32_t>(logical);
  } else {
    offset_alignment_ = can_read(kSectorBytes) ? kSectorBytes : can_read(kPageBytes) ? kPageBytes : 0;
    memory_alignment_ = offset_alignment_;
  }
  if (offset_alignment_ != 0 && memory_alignment_ != 0) return;
  // Not of this file, whatever open() said.
  (void)::fcntl(file_, F_SETFL, ::fcntl(file_, F_GETFL) & ~O_DIRECT);
  direct_ = false;
  offset_alignment_ = memory_alignment_ = 1;
}

bool Backing::can_read(uint32_t bytes) const {
  alignas(kPageBytes) std::array<std::byte, size_t{2} * kPageBytes> memory;
  // Not at a page: what is said of the place must hold for the memory.
  return ::pread(file_, memory.data() + bytes, bytes, 0) >= 0;
}

Error Backing::failure(const char* what, int error) const {
  return {error, "file " + path_ + ": " + what + ": " + strerrordesc_np(error)};
}

bool was_taken_away(int file) {
  uint64_t bytes = 0;
  return ::ioctl(file, BLKGETSIZE64, &bytes) == 0 ? bytes == 0 : errno == ENODEV || errno == ENXIO;
}

}  // namespace uroce::drivers
