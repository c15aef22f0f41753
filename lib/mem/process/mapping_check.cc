// A registration of more than kPopulatedBytesMax asks the kernel for mappings and touches no page:
// PROCMAP_QUERY of Linux 6.11, else /proc/self/maps. Programs reserve far more than they touch, and a guarded
// copy fills in what it finds missing. Cost: the first access to each page takes its fault in a turn, on the
// poller's memory node. Missing memory shows itself there (memory_gone, or the kernel's OOM killer).
//
// A smaller one populates its pages, because that is one system call. Of a mapping of a file or of shared
// memory the last page is touched, which may lie behind the end of the file.
#include "mem/process/mapping_check.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "base/process/cancellation.h"
#include "mem/process/memory_probe.h"

namespace uroce::mem {
namespace {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  bool readable = false;
  bool writable = false;
  bool of_file = false;  // shared memory and hugepages too
};

/// While it lives the thread is not cancelled: nothing of a registration is left half done.
class MapsFile {
 public:
  MapsFile() : descriptor_(::open("/proc/self/maps", O_RDONLY | O_CLOEXEC)) {}
  ~MapsFile() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  MapsFile(const MapsFile&) = delete;
  MapsFile& operator=(const MapsFile&) = delete;

  [[nodiscard]] int descriptor() const { return descriptor_; }

 private:
  const CancellationDisabled held_;
  const int descriptor_;
};

/// struct procmap_query of <linux/fs.h> since Linux 6.11.
struct MappingQuery {
  static constexpr uint64_t kReadable = 1;
  static constexpr uint64_t kWritable = 2;

  uint64_t size = sizeof(MappingQuery);
  uint64_t query_flags = 0;  // the mapping that has the address
  uint64_t query_address = 0;
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t flags = 0;
  uint64_t page_size = 0;
  uint64_t offset = 0;
  uint64_t inode = 0;
  uint32_t device_major = 0;
  uint32_t device_minor = 0;
  uint32_t name_size = 0;
  uint32_t build_id_size = 0;
  uint64_t name_address = 0;
  uint64_t build_id_address = 0;
};
static_assert(sizeof(MappingQuery) == 104);
constexpr unsigned long kQueryMapping = _IOWR('f', 17, MappingQuery);

class MappingQueries {
 public:
  /// The mapping with the address; none: there is none, or the kernel does not answer such questions.
  std::optional<Mapping> find(uint64_t address) {
    MappingQuery query{.query_address = address};
    if (::ioctl(file_.descriptor(), kQueryMapping, &query) != 0) return std::nullopt;
    return Mapping{.start = query.start,
                   .end = query.end,
                   .readable = (query.flags & MappingQuery::kReadable) != 0,
                   .writable = (query.flags & MappingQuery::kWritable) != 0,
                   .of_file = query.inode != 0};
  }

 private:
  MapsFile file_;
};

/// START-END RWXP OFFSET MAJOR:MINOR INODE ..., numbers in hexadecimal but for the inode.
std::optional<Mapping> parse(std::string_view line) {
  Mapping mapping;
  const char* const end = line.data() + line.size();
  const auto start = std::from_chars(line.data(), end, mapping.start, 16);
  if (start.ec != std::errc() || start.ptr == end || *start.ptr != '-') return std::nullopt;
  const auto behind = std::from_chars(start.ptr + 1, end, mapping.end, 16);
  if (behind.ec != std::errc() || end - behind.ptr < 6) return std::nullopt;
  mapping.readable = behind.ptr[1] == 'r';
  mapping.writable = behind.ptr[2] == 'w';
  const char* at = behind.ptr + 6;  // the offset
  for (int field = 0; field < 2 && at != end; ++field) at = std::find(at, end, ' ') + 1;
  mapping.of_file = at < end && *at != '0';
  return mapping;
}

/// Asked for ascending addresses, it reads the list once.
class MappingList {
 public:
  std::optional<Mapping> find(uint64_t address) {
    while (newest_.end <= address) {
      const auto line = next_line();
      const auto mapping = line ? parse(*line) : std::nullopt;
      if (!mapping) return std::nullopt;
      newest_ = *mapping;
    }
    return newest_.start <= address ? std::optional(newest_) : std::nullopt;
  }

 private:
  /// None: the end, or a line longer than the buffer.
  std::optional<std::string_view> next_line() {
    while (true) {
      const char* const first = buffer_.data() + begin_;
      const auto* const newline = static_cast<const char*>(std::memchr(first, '\n', filled_ - begin_));
      if (newline != nullptr) {
        begin_ += static_cast<size_t>(newline - first) + 1;
        return std::string_view(first, newline);
      }
      std::memmove(buffer_.data(), first, filled_ - begin_);
      filled_ -= begin_;
      begin_ = 0;
      if (filled_ == buffer_.size()) return std::nullopt;
      const ssize_t more = ::read(file_.descriptor(), buffer_.data() + filled_, buffer_.size() - filled_);
      if (more <= 0) return std::nullopt;
      filled_ += static_cast<size_t>(more);
    }
  }

  MapsFile file_;
  Mapping newest_;
  std::array<char, 16u << 10> buffer_;  // longer than a line: PATH_MAX and what is before it
  size_t begin_ = 0;
  size_t filled_ = 0;
};

template <typename Mappings>
bool check(Mappings& mappings, const std::byte* address, uint64_t length, bool write) {
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<uint64_t>(address);
  const uint64_t last = first + (length - 1);
  for (uint64_t at = first;;) {
    const auto mapping = mappings.find(at);
    // Not so, or it changed meanwhile: an access decides.
    if (!mapping || !mapping->readable || (write && !mapping->writable))
      return probe_memory(reinterpret_cast<const std::byte*>(at), last - at + 1, write);
    const uint64_t last_of_it = std::min(mapping->end - 1, last);
    const auto* const last_page = reinterpret_cast<const std::byte*>(last_of_it & ~(page - 1));
    if (mapping->of_file && !probe_pages(last_page, 1, false)) return false;
    if (last_of_it == last) return true;
    at = last_of_it + 1;
  }
}

}  // namespace

bool check_by_queries(const std::byte* address, uint64_t length, bool write) {
  MappingQueries mappings;
  return check(mappings, address, length, write);
}

bool check_by_list(const std::byte* address, uint64_t length, bool write) {
  MappingList mappings;
  return check(mappings, address, length, write);
}

bool check_memory(const std::byte* address, uint64_t length, bool write) {
  if (length <= kPopulatedBytesMax) return probe_memory(address, length, write);
  MappingQueries queries;
  // The first address is asked for twice where the kernel answers, and nothing else tells whether it does.
  const bool answered = queries.find(reinterpret_cast<uint64_t>(address)).has_value();
  return answered ? check(queries, address, length, write) : check_by_list(address, length, write);
}

}  // namespace uroce::mem
