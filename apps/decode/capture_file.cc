#include "apps/decode/capture_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>

#include "wire/big_endian.h"
#include "wire/header_sizes.h"

namespace uroce::decode {
namespace {

/// What stands before the network layer in the kinds of link that are read, and where it says which that is.
struct Link {
  int type;
  uint32_t header_bytes;
  std::optional<uint32_t> protocol_at;  // none: the first byte of IP says its version
};
constexpr std::array<Link, 6> kLinks{{{DLT_EN10MB, 0, 12},
                                      {DLT_LINUX_SLL, 16, 14},
                                      {DLT_LINUX_SLL2, 20, 0},
                                      {DLT_RAW, 0, {}},
                                      {DLT_IPV4, 0, {}},
                                      {DLT_IPV6, 0, {}}}};

constexpr size_t kBufferBytes = 64u << 10;

const Link* find_link(int type) {
  const auto* const link = std::ranges::find(kLinks, type, &Link::type);
  return link == kLinks.end() ? nullptr : link;
}

/// An EtherType for what is no Ethernet frame.
uint16_t protocol_of(const Link& link, std::span<const std::byte> data) {
  if (link.protocol_at)
    return data.size() < link.header_bytes ? 0 : wire::load_be16(data.data() + *link.protocol_at);
  if (data.empty()) return 0;
  return (wire::load_u8(data.data()) >> 4) == 6 ? wire::kEtherTypeIpv6 : wire::kEtherTypeIpv4;
}

}  // namespace

/// A stream that closes the descriptor. Null: there is no memory.
FILE* CaptureFile::stream_of(Source& source) {
  constexpr cookie_io_functions_t kFunctions{
      .read = [](void* cookie, char* to, size_t bytes) -> ssize_t {
        auto& from = *static_cast<Source*>(cookie);
        ssize_t got;
        do {
          got = ::read(from.descriptor, to, bytes);
        } while (got < 0 && errno == EINTR);
        if (got > 0) from.losses.pass(std::as_bytes(std::span(to, static_cast<size_t>(got))));
        return got;
      },
      .write = nullptr,
      .seek = nullptr,
      .close = [](void* cookie) -> int { return ::close(static_cast<Source*>(cookie)->descriptor); }};
  FILE* const stream = fopencookie(&source, "r", kFunctions);
  if (stream == nullptr) return nullptr;
  source.buffer.resize(kBufferBytes);
  std::setvbuf(stream, source.buffer.data(), _IOFBF, source.buffer.size());
  return stream;
}

Result<CaptureFile> CaptureFile::open(const std::string& path) {
  auto source = std::make_unique<Source>();
  source->descriptor = path == "-" ? ::dup(STDIN_FILENO) : ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (source->descriptor < 0) return Error{errno, fmt::format("{}: {}", path, std::strerror(errno))};
  FILE* const stream = stream_of(*source);
  if (stream == nullptr) {
    ::close(source->descriptor);
    return Error{ENOMEM, fmt::format("{}: {}", path, std::strerror(ENOMEM))};
  }
  std::array<char, PCAP_ERRBUF_SIZE> error{};
  pcap_t* const capture =
      pcap_fopen_offline_with_tstamp_precision(stream, PCAP_TSTAMP_PRECISION_NANO, error.data());
  if (capture == nullptr) {
    std::fclose(stream);
    return Error{EINVAL, fmt::format("{}: {}", path, error.data())};
  }
  CaptureFile file(std::move(source), capture);
  if (find_link(file.link_) == nullptr) {
    const char* const name = pcap_datalink_val_to_name(file.link_);
    return Error{EINVAL, fmt::format("{}: a capture of {} has no Ethernet or IP in it that can be read", path,
                                     name == nullptr ? fmt::format("link type {}", file.link_) : name)};
  }
  return file;
}

void CaptureFile::read(Frames& frames, size_t bytes_wanted) {
  frames.first = frames_read_ + 1;
  pcap_pkthdr* header = nullptr;
  const u_char* data = nullptr;
  while (frames.bytes.size() < bytes_wanted) {
    const int status = pcap_next_ex(capture_.get(), &header, &data);
    if (status != 1) {
      if (status != PCAP_ERROR_BREAK) trouble_ = pcap_geterr(capture_.get());
      return;
    }
    ++frames_read_;
    add(frames, *header, reinterpret_cast<const std::byte*>(data));
  }
}

void CaptureFile::add(Frames& frames, const pcap_pkthdr& header, const std::byte* data) {
  const Link& link = *find_link(link_);
  std::span<const std::byte> rest(data, std::min(header.caplen, kFrameBytesMax));
  uint32_t bytes = std::clamp(header.len, static_cast<uint32_t>(rest.size()), kFrameBytesMax);
  const size_t offset = frames.bytes.size();
  if (link.type != DLT_EN10MB) {
    std::array<std::byte, wire::kEthernetBytes> ethernet{};
    wire::store_be16(ethernet.data() + 12, protocol_of(link, rest));
    frames.bytes.insert(frames.bytes.end(), ethernet.begin(), ethernet.end());
    const uint32_t skipped = std::min(link.header_bytes, static_cast<uint32_t>(rest.size()));
    rest = rest.subspan(skipped);
    bytes = std::min(bytes - skipped + static_cast<uint32_t>(ethernet.size()), kFrameBytesMax);
  }
  frames.bytes.insert(frames.bytes.end(), rest.begin(), rest.end());
  const auto captured = static_cast<uint32_t>(frames.bytes.size() - offset);
  if (captured < bytes) frames.bytes.resize(offset + bytes);
  frames.records.push_back({.offset = offset,
                            .captured = captured,
                            .bytes = std::max(captured, bytes),
                            // With nanoseconds asked for, tv_usec has them.
                            .time_ns = int64_t{header.ts.tv_sec} * 1'000'000'000 + int64_t{header.ts.tv_usec},
                            .lost_before = source_->losses.before(frames_read_)});
}

}  // namespace uroce::decode
