#include "base/process/regular_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/process/descriptor.h"

namespace uroce {
namespace {

Error refused(const std::string& path, int code, const std::string& why) { return {code, path + ": " + why}; }

Error failed(const std::string& path, int code) { return refused(path, code, std::strerror(code)); }

}  // namespace

Result<std::string> read_regular_file(const std::string& path, size_t bytes_max) {
  // Without O_NONBLOCK a FIFO would wait for its other end before it can be refused.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!file.ok()) return failed(path, errno);
  struct stat found {};
  if (fstat(file.get(), &found) != 0) return failed(path, errno);
  if (S_ISDIR(found.st_mode)) return failed(path, EISDIR);
  if (S_ISCHR(found.st_mode) && found.st_rdev == makedev(1, 3)) return std::string();  // null(4)
  if (!S_ISREG(found.st_mode)) return refused(path, EINVAL, "is no regular file");
  // Files of /proc do not say how long they are, and a file may grow meanwhile.
  std::string text;
  std::array<char, 16384> bytes;
  while (text.size() <= bytes_max) {
    const ssize_t length = read(file.get(), bytes.data(), bytes.size());
    if (length < 0 && errno == EINTR) continue;
    if (length < 0) return failed(path, errno);
    if (length == 0) return text;
    text.append(bytes.data(), static_cast<size_t>(length));
  }
  return refused(path, EFBIG, "has more than " + std::to_string(bytes_max) + " bytes");
}

}  // namespace uroce
