#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/values/result.h"
#include "capture/ring.h"
#include "host/shared_memory.h"

namespace uroce::dump {

/// A frame as it was captured.
struct CapturedFrame {
  capture::Record record;
  uint32_t source = 0;  // which program
  uint64_t lost_before = 0;
  std::vector<std::byte> bytes;
  std::string comment;
};

/// The rings of all programs that capture, read in the order of time. The programs are of any user, and a
/// ring may hold anything: what one of them says costs the others a bounded share of memory and time.
class CapturedFrames {
 public:
  /// Memory for the frames of all rings that wait to be written. Each ring may have an equal share of it.
  static constexpr size_t kHeldBytesMax = size_t{256} << 20;
  static constexpr uint32_t kRingsMax = 2048;
  static constexpr uint32_t kRingsOfUserMax = 1024;

  /// Frames are of the time from `begin_ns` on, since 1970.
  explicit CapturedFrames(int64_t begin_ns) : begin_ns_(begin_ns) {}

  /// The memory of a program, which is process `pid`, by its descriptor. EPROTO, EPERM: it is none. EDQUOT:
  /// there are too many of its user, or of all.
  Status add(int descriptor, int pid);

  /// Takes what has been captured out of the rings: of each no more than kAtOnce frames before it is the next
  /// one's turn, and what its share of memory holds. False: there was nothing.
  bool drain(int64_t now_ns);
  /// Gives the memory of programs back that `has_ended` says have ended, once all of it is read.
  void forget_ended(const std::function<bool(int pid)>& has_ended);
  /// The oldest frame, once no older one can come, and what there is to say of it is known; with `all` at
  /// once.
  std::optional<CapturedFrame> take(int64_t now_ns, bool all);

  struct Counts {
    uint64_t received = 0;
    uint64_t lost = 0;  // because they were not read in time
  };
  [[nodiscard]] Counts counts(uint32_t source) const;
  [[nodiscard]] Counts counts() const;
  [[nodiscard]] uint32_t sources() const { return static_cast<uint32_t>(sources_.size()); }
  /// NAKs, and requests that ended with an error, of all programs.
  [[nodiscard]] uint64_t errors() const;

 private:
  /// Programs capture with one clock, but write each into a ring of its own; reasons follow by the next turn.
  static constexpr int64_t kHeldBackNs = 20'000'000;
  static constexpr uint32_t kAtOnce = 8192;
  static constexpr uint64_t kLookedInVainMax = 1024;

  struct Held {
    CapturedFrame frame;
    uint64_t position = 0;
    size_t bytes = 0;  // of memory
  };
  /// One of a poller, which writes in the order of time.
  struct Ring {
    uint32_t source = 0;
    std::optional<capture::RingReader> reader;  // null: the memory was given back
    int64_t newest_ns = 0;
    uint64_t lost = 0;           // when it was read last
    std::deque<Held> held = {};  // by position, and by time
    size_t held_bytes = 0;
    bool drained = false;    // nothing was left in it when it was read last
    uint32_t pass_over = 0;  // so many drains, as it had the reader look at slots in vain
    uint64_t lost_at_end = 0;
    uint64_t errors_at_end = 0;

    [[nodiscard]] uint64_t all_lost() const { return reader ? reader->lost() : lost_at_end; }
    [[nodiscard]] uint64_t all_errors() const { return reader ? reader->errors() : errors_at_end; }
  };
  struct Source {
    host::Mapping memory;
    int pid = 0;
    uint32_t user = 0;
    bool ended = false;
    uint32_t first_ring = 0;
    uint32_t rings = 0;
    uint64_t received = 0;
  };
  using Next = std::pair<int64_t, uint32_t>;  // the time of the oldest frame that a ring holds, and the ring

  [[nodiscard]] Status may_add(uint32_t user, uint32_t rings) const;
  [[nodiscard]] std::span<Ring> rings_of(const Source& source) {
    return std::span(rings_).subspan(source.first_ring, source.rings);
  }
  bool drain_ring(uint32_t index, size_t share, int64_t now_ns);
  void give_back(Source& source);
  void take_record(capture::Record record, uint32_t ring, int64_t now_ns);
  void give_reason(const capture::Record& record, Ring& ring);

  const int64_t begin_ns_;
  std::vector<Source> sources_;
  std::vector<Ring> rings_;                      // of all sources
  std::map<uint32_t, uint32_t> rings_of_users_;  // whose memory is there
  uint32_t open_rings_ = 0;                      // of all of them
  std::set<Next> next_;                          // of the rings that hold frames
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{1} << 16);
};

}  // namespace uroce::dump
