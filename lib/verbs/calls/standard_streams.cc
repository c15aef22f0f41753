#include "verbs/calls/standard_streams.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/platform/log.h"

namespace uroce::verbs {

namespace {

struct FileIdentity {
  dev_t device = 0;
  ino_t inode = 0;
  bool open = false;
  bool operator==(const FileIdentity&) const = default;
};

FileIdentity identity_of(int descriptor) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) return {};
  return {status.st_dev, status.st_ino, true};
}

// Taken when the library is loaded.
const FileIdentity at_load = identity_of(STDERR_FILENO);

}  // namespace

bool is_for_messages() {
  struct stat status {};
  if (fstat(STDERR_FILENO, &status) != 0) return false;
  if (identity_of(STDERR_FILENO) == at_load) return true;
  if (S_ISCHR(status.st_mode)) return true;
  return S_ISREG(status.st_mode) && (fcntl(STDERR_FILENO, F_GETFL) & O_APPEND) != 0;
}

StandardStreamsReserved::StandardStreamsReserved() {
  for (;;) {
    const int descriptor = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (descriptor < 0) return;
    if (descriptor > STDERR_FILENO) {
      close(descriptor);
      return;
    }
    held_[static_cast<size_t>(descriptor)] = true;
  }
}

StandardStreamsReserved::~StandardStreamsReserved() {
  for (size_t i = 0; i < held_.size(); ++i) {
    if (held_[i]) close(static_cast<int>(i));
  }
}

void complain(const std::string& message, std::string_view device) {
  if (!is_for_messages()) return;
  const engine::LogField field{"device", device};
  engine::write_log(engine::LogLevel::kError, "uroce", message, {&field, device.empty() ? 0u : 1u});
}

}  // namespace uroce::verbs
