#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
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

/// The rings of all programs that capture, read in the order of time.
class CapturedFrames {
 public:
  /// A program's memory, by its descriptor. EPROTO, EPERM: it is none.
  Status add(int descriptor);

  /// Takes what has been captured out of the rings: of each all that is there now, and of what comes
  /// meanwhile no more than a ring holds before it is the next one's turn.
  void drain();
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

  struct Ring {
    capture::RingReader reader;
    uint64_t lost = 0;  // when it was read last
    uint64_t errors = 0;
  };
  struct Source {
    host::Mapping memory;
    std::vector<Ring> rings;
    uint64_t received = 0;
  };
  struct Held {
    CapturedFrame frame;
    uint32_t ring = 0;
    uint64_t position = 0;
  };

  void take_record(const capture::Record& record, uint32_t source, uint32_t ring,
                   std::span<const std::byte> bytes);
  void give_reason(const capture::Record& record, uint32_t source, uint32_t ring);

  std::vector<Source> sources_;
  std::deque<Held> held_;  // by time
  std::vector<std::byte> bytes_ = std::vector<std::byte>(size_t{1} << 16);
};

}  // namespace uroce::dump
