#include "apps/mem/local_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <utility>
#include <vector>

#include "client/failure.h"

namespace uroce::memory_export {
namespace {

using client::failed;
using client::Failure;
namespace fs = std::filesystem;

constexpr const char* kStandard = "-";

/// How much was read, 0 at the end.
size_t read_some(int descriptor, std::span<std::byte> into, const std::string& name) {
  while (true) {
    const ssize_t count = ::read(descriptor, into.data(), into.size());
    if (count >= 0) return static_cast<size_t>(count);
    if (errno != EINTR) throw failed(name, errno);
    client::throw_if_interrupted();
  }
}

void write_all(int descriptor, std::span<const std::byte> bytes, const std::string& name) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno != EINTR) throw failed(name, errno);
    client::throw_if_interrupted();
    if (count > 0) bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

int open_unnamed() {
  const char* const told = std::getenv("TMPDIR");
  std::string name = fmt::format("{}/uroce-mem-XXXXXX", told != nullptr && *told != '\0' ? told : "/tmp");
  const int descriptor = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor < 0) throw failed(name, errno);
  ::unlink(name.c_str());
  return descriptor;
}

mode_t allowed_mode() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

Source::Source(const std::string& path, uint64_t length_max)
    : name_(path == kStandard ? "standard input" : path) {
  descriptor_ = path == kStandard ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                                  : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (descriptor_ < 0) throw failed(name_, errno);
  struct stat found {};
  const bool regular = ::fstat(descriptor_, &found) == 0 && S_ISREG(found.st_mode);
  // Standard input may stand in the middle of a file.
  const off_t position = regular ? ::lseek(descriptor_, 0, SEEK_CUR) : -1;
  try {
    if (position < 0) {
      spool(length_max);
      return;
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
  at_ = static_cast<uint64_t>(position);
  const auto all = static_cast<uint64_t>(found.st_size);
  length_ = std::min(all - std::min(all, at_), length_max);
}

Source::~Source() { ::close(descriptor_); }

void Source::spool(uint64_t length_max) {
  const int temporary = open_unnamed();
  std::vector<std::byte> buffer(1 << 18);
  try {
    while (length_ < length_max) {
      const auto wanted = static_cast<size_t>(std::min<uint64_t>(buffer.size(), length_max - length_));
      const size_t count = read_some(descriptor_, std::span(buffer).first(wanted), name_);
      if (count == 0) break;
      write_all(temporary, std::span(buffer).first(count), "temporary file");
      length_ += count;
    }
  } catch (...) {
    ::close(temporary);
    throw;
  }
  ::close(descriptor_);
  descriptor_ = temporary;
}

void Source::read(std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), static_cast<off_t>(at_));
    if (count < 0 && errno != EINTR) throw failed(name_, errno);
    client::throw_if_interrupted();
    if (count == 0) throw Failure(fmt::format("{} became shorter while it was sent", name_));
    if (count < 0) continue;
    at_ += static_cast<uint64_t>(count);
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

Destination::Destination(const std::string& path) : path_(path) {
  if (path == kStandard) {
    descriptor_ = ::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  } else if (std::error_code error; fs::exists(path, error) && !fs::is_regular_file(path, error)) {
    descriptor_ = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  } else {
    open_temporary();
  }
  if (descriptor_ < 0) throw failed(path == kStandard ? "standard output" : path, errno);
}

Destination::~Destination() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
  if (descriptor_ >= 0) ::close(descriptor_);
}

void Destination::open_temporary() {
  // A symbolic link stays one.
  std::error_code error;
  const fs::path place = fs::weakly_canonical(path_, error);
  std::string name = fmt::format("{}.XXXXXX", error ? path_ : place.string());
  descriptor_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (descriptor_ >= 0) temporary_ = name;
}

void Destination::append(std::span<const std::byte> bytes) {
  write_all(descriptor_, bytes, path_ == kStandard ? "standard output" : path_);
}

void Destination::finish() {
  if (temporary_.empty()) return;
  const std::string place = temporary_.substr(0, temporary_.rfind('.'));
  struct stat old {};
  const mode_t mode = ::stat(place.c_str(), &old) == 0 ? old.st_mode & 07777 : allowed_mode();
  // A file system may tell only now that it is full.
  if (::fchmod(descriptor_, mode) != 0 || ::close(std::exchange(descriptor_, -1)) != 0 ||
      ::rename(temporary_.c_str(), place.c_str()) != 0)
    throw failed(path_, errno);
  temporary_.clear();
}

}  // namespace uroce::memory_export
