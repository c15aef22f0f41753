#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "apps/dump/captured_frames.h"
#include "apps/dump/pcapng.h"
#include "base/process/descriptor.h"
#include "base/values/result.h"

namespace uroce::dump {

/// The file that a capture is written to, or standard output ("-"). Whatever happens, it ends with a whole
/// block, and one in which there is none is removed.
class CaptureFile {
 public:
  static Result<CaptureFile> create(const std::string& path);
  CaptureFile(CaptureFile&&) = default;
  CaptureFile& operator=(CaptureFile&&) = delete;

  void add_interface(const std::string& name, const std::string& description, uint32_t snap_bytes) {
    blocks_.add_interface(name, description, snap_bytes);
  }
  /// ENOSPC and others: what fits was written.
  Status add(const CapturedFrame& frame);
  Status finish(const CapturedFrames& frames, int64_t now_ns);
  Status flush();
  [[nodiscard]] uint64_t packets() const { return packets_; }

 private:
  static constexpr size_t kBufferBytes = 1u << 18;

  CaptureFile(std::string path, Descriptor descriptor)
      : path_(std::move(path)), descriptor_(std::move(descriptor)) {}
  Status failed(int error, size_t written);

  std::string path_;
  Descriptor descriptor_;
  PcapngBlocks blocks_;
  uint64_t written_ = 0;
  uint64_t packets_ = 0;
};

}  // namespace uroce::dump
