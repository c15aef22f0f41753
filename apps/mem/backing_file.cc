// A writable file gets its blocks when it is opened, so that no WRITE finds the disk full. Cost: no sparse
// files.
#include "apps/mem/backing_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace uroce::memory_export {

/// An open file, which goes back to what it was unless it is kept.
class OpenFile {
 public:
  explicit OpenFile(const RegionConfiguration& configuration) : path_(configuration.file) {
    // Without O_NONBLOCK a FIFO would wait for its other end before it can be refused.
    const int access = (configuration.writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NONBLOCK;
    number_ = ::open(path_.c_str(), access);
    if (number_ >= 0 || errno != ENOENT || !configuration.size) return;
    number_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    is_new_ = number_ >= 0;
  }
  ~OpenFile() {
    if (number_ < 0) return;
    if (is_new_) ::unlink(path_.c_str());
    if (!is_new_ && extended_from_ && ::ftruncate(number_, *extended_from_) != 0)
      fmt::print(stderr, "{}: not cut back to {} bytes: {}\n", path_, *extended_from_, std::strerror(errno));
    ::close(number_);
  }
  OpenFile(const OpenFile&) = delete;
  OpenFile& operator=(const OpenFile&) = delete;

  [[nodiscard]] bool ok() const { return number_ >= 0; }
  [[nodiscard]] int number() const { return number_; }

  /// 0 or errno.
  int extend(off_t from, off_t to, bool writable) {
    if (is_new_ || from < to) {
      // One that is exported to be read may be open for reading only.
      if (!is_new_ && !writable) {
        const int also_written = ::open(path_.c_str(), O_RDWR | O_CLOEXEC);
        if (also_written < 0) return errno;
        ::close(std::exchange(number_, also_written));
      }
      if (from < to) extended_from_ = from;
      if (::ftruncate(number_, to) != 0) return errno;
    }
    if (!writable) return 0;
    const bool allocated = ::fallocate(number_, 0, 0, to) == 0;
    return allocated || errno == EOPNOTSUPP || errno == ENOSYS ? 0 : errno;
  }

  void keep() {
    is_new_ = false;
    extended_from_.reset();
  }

 private:
  const std::string path_;
  int number_ = -1;
  bool is_new_ = false;
  std::optional<off_t> extended_from_;
};

namespace {

Error failure(const RegionConfiguration& region, int code, std::string_view what = "") {
  return Error{code, fmt::format("region \"{}\": {}: {}", region.name, region.file,
                                 what.empty() ? std::strerror(code) : what)};
}

}  // namespace

Result<BackingFile> BackingFile::open(const RegionConfiguration& configuration) {
  auto file = std::make_unique<OpenFile>(configuration);
  const auto failed = [&](int code, std::string_view what = "") {
    return failure(configuration, code, what);
  };
  if (!file->ok()) return failed(errno);
  struct stat found {};
  if (::fstat(file->number(), &found) != 0) return failed(errno);
  if (!S_ISREG(found.st_mode)) return failed(EINVAL, "not a regular file");
  const auto length = static_cast<uint64_t>(found.st_size);
  if (configuration.size && length > *configuration.size)
    return failed(
        EFBIG, fmt::format("has {} bytes, more than the configured size of {}", length, *configuration.size));
  const uint64_t size = configuration.size.value_or(length);
  if (size == 0) return failed(EINVAL, "is empty, and no size is configured");
  const int error = file->extend(found.st_size, static_cast<off_t>(size), configuration.writable);
  if (error != 0) return failed(error);
  const int protection = configuration.writable ? PROT_READ | PROT_WRITE : PROT_READ;
  void* const mapped = ::mmap(nullptr, size, protection, MAP_SHARED, file->number(), 0);
  if (mapped == MAP_FAILED) return failed(errno);
  return BackingFile({static_cast<std::byte*>(mapped), size}, std::move(file));
}

BackingFile::BackingFile(std::span<std::byte> bytes, std::unique_ptr<OpenFile> file)
    : bytes_(bytes), file_(std::move(file)) {}

BackingFile::BackingFile(BackingFile&& other) noexcept
    : bytes_(std::exchange(other.bytes_, {})), file_(std::move(other.file_)) {}

void BackingFile::keep() {
  if (file_ != nullptr) file_->keep();
  file_.reset();
}

BackingFile::~BackingFile() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
}

int BackingFile::sync(uint64_t offset, uint64_t length) const {
  if (length == 0) return 0;
  // The first page as a whole: msync takes whole pages only.
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = offset / page * page;
  return ::msync(bytes_.data() + first, length + (offset - first), MS_SYNC) == 0 ? 0 : errno;
}

}  // namespace uroce::memory_export
