#pragma once

#include <cstddef>
#include <string>

#include "base/values/result.h"

namespace uroce {

/// Bytes that a file for people may have: a configuration, a profile, a key.
inline constexpr size_t kTextFileBytesMax = 1 << 20;

/// Reads a whole regular file; /dev/null is an empty one. Any other kind of file, as a device or a pipe, is
/// refused before it is read, and without waiting. EISDIR, EINVAL (no regular file), EFBIG, or the errno of
/// open(2) or read(2); the message names the file.
Result<std::string> read_regular_file(const std::string& path, size_t bytes_max = kTextFileBytesMax);

}  // namespace uroce
