#pragma once

#include <pcap/pcap.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "apps/decode/capture_losses.h"
#include "base/values/result.h"

namespace uroce::decode {

/// Frames as they were read, one behind the other. Each begins with an Ethernet header, also where the
/// capture has another one or none, and has zeros where the capture cut it.
struct Frames {
  struct Record {
    size_t offset = 0;
    uint32_t captured = 0;     // bytes that the capture has, counted from the Ethernet header
    uint32_t bytes = 0;        // as on the wire; at most kFrameBytesMax
    int64_t time_ns = 0;       // since 1970
    uint64_t lost_before = 0;  // frames that the capture says it lost since the one before
  };
  uint64_t first = 0;  // number of the first one in its file
  std::vector<std::byte> bytes;
  std::vector<Record> records;

  void clear() {
    bytes.clear();
    records.clear();
  }
  [[nodiscard]] std::span<const std::byte> frame(const Record& record) const {
    return std::span(bytes).subspan(record.offset, record.bytes);
  }
};

/// Longer ones than that are no frames of RoCEv2, and only their first bytes are looked at.
inline constexpr uint32_t kFrameBytesMax = 1u << 16;

/// A file of pcap or pcapng, or standard input ("-"), by libpcap.
class CaptureFile {
 public:
  /// Says what the matter is when it cannot be opened, or is of a kind of link that has no RoCEv2.
  static Result<CaptureFile> open(const std::string& path);

  /// Adds the next frames to `frames`, about `bytes_wanted`. None: the end, or trouble().
  void read(Frames& frames, size_t bytes_wanted);
  /// Why reading ended before the file did; empty: it did not.
  [[nodiscard]] const std::string& trouble() const { return trouble_; }
  [[nodiscard]] uint64_t frames_read() const { return frames_read_; }
  /// Frames that the file says it lacks, as far as it was read.
  [[nodiscard]] uint64_t frames_lost() const { return source_->losses.total(); }

 private:
  /// The bytes of the file on their way to libpcap.
  struct Source {
    int descriptor = -1;
    CaptureLosses losses;
    std::vector<char> buffer;
  };
  struct Close {
    void operator()(pcap_t* capture) const { pcap_close(capture); }
  };
  CaptureFile(std::unique_ptr<Source> source, pcap_t* capture)
      : source_(std::move(source)), capture_(capture), link_(pcap_datalink(capture)) {}
  static FILE* stream_of(Source& source);
  void add(Frames& frames, const pcap_pkthdr& header, const std::byte* data);

  std::unique_ptr<Source> source_;  // which `capture_` reads until it is closed
  std::unique_ptr<pcap_t, Close> capture_;
  int link_;
  uint64_t frames_read_ = 0;
  std::string trouble_;
};

}  // namespace uroce::decode
