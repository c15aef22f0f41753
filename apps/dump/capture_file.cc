#include "apps/dump/capture_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace uroce::dump {
namespace {

Error error_of(const std::string& path, int code) {
  return {code, fmt::format("{}: {}", path == "-" ? "standard output" : path, std::strerror(code))};
}

}  // namespace

Result<CaptureFile> CaptureFile::create(const std::string& path) {
  Descriptor descriptor(path == "-" ? dup(STDOUT_FILENO)
                                    : open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!descriptor.ok()) return error_of(path, errno);
  CaptureFile file(path, std::move(descriptor));
  file.blocks_.add_section("uroce dump " UROCE_VERSION);
  return file;
}

Status CaptureFile::add(const CapturedFrame& frame) {
  using Direction = PcapngBlocks::Direction;
  blocks_.add_packet(
      {.interface = frame.source,
       .time_ns = frame.record.time_ns,
       .bytes = frame.bytes,
       .bytes_of_frame = frame.record.bytes,
       .direction = frame.record.kind == capture::RecordKind::kIn ? Direction::kIn : Direction::kOut,
       .lost_before = frame.lost_before,
       .comment = frame.comment});
  ++packets_;
  return blocks_.bytes().size() < kBufferBytes ? Status() : flush();
}

Status CaptureFile::finish(const CapturedFrames& frames, int64_t now_ns) {
  for (uint32_t i = 0; i < frames.sources(); ++i) {
    const CapturedFrames::Counts counts = frames.counts(i);
    blocks_.add_statistics(i, now_ns, counts.received, counts.lost);
  }
  return flush();
}

Status CaptureFile::flush() {
  const auto bytes = blocks_.bytes();
  size_t written = 0;
  while (written < bytes.size()) {
    const ssize_t some = write(descriptor_.get(), bytes.data() + written, bytes.size() - written);
    if (some < 0 && errno == EINTR) continue;
    if (some <= 0) return failed(some < 0 ? errno : EIO, written);
    written += static_cast<size_t>(some);
  }
  written_ += written;
  blocks_.clear();
  return {};
}

/// What stands in the file behind its last whole block goes.
Status CaptureFile::failed(int error, size_t written) {
  const uint64_t whole = written_ + whole_blocks(blocks_.bytes(), written);
  if (path_ != "-") {
    if (whole == 0) {
      unlink(path_.c_str());
    } else if (ftruncate(descriptor_.get(), static_cast<off_t>(whole)) != 0) {
      return error_of(path_, errno);
    }
  }
  blocks_.clear();
  return error_of(path_, error);
}

}  // namespace uroce::dump
