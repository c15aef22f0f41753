#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace uroce::mem {

/// Most readers (pollers of one device).
inline constexpr size_t kReadersMax = 64;

/// A grace period of as many readers, or fewer, that is waited for without blocking.
class GraceTicket {
 public:
  /// A ticket of one reader takes no memory of its own.
  explicit GraceTicket(size_t readers = kReadersMax) : readers_(static_cast<uint32_t>(readers)) {
    if (readers_ > 1) many_ = new uint64_t[readers_]{};
  }
  ~GraceTicket() {
    if (readers_ > 1) delete[] many_;
  }
  GraceTicket(const GraceTicket&) = delete;
  GraceTicket& operator=(const GraceTicket&) = delete;

  /// The implementation's; one for each reader.
  [[nodiscard]] std::span<uint64_t> observed() { return {readers_ > 1 ? many_ : &one_, readers_}; }

 private:
  union {
    uint64_t one_ = 0;
    uint64_t* many_;
  };
  const uint32_t readers_;
};

/// How writers wait until no reader can still hold what was unpublished before the call. Readers are pollers
/// between quiescent states; `engine` implements it (design: quiescent-state based reclamation).
///
/// What the caller stored before (with release or relaxed order) is seen by every turn that begins later: an
/// implementation needs a full barrier between the call and its first look at a poller, and one between the
/// mark that a turn has begun and the first lookup in it.
class GracePeriod {
 public:
  virtual ~GracePeriod() = default;
  /// Returns when every poller that was in a turn at the call has ended that turn. A poller that is not being
  /// turned counts as quiescent, and so does the one that the calling thread itself is turning.
  virtual void wait() = 0;

  /// Begins a grace period for a poller, which must not block inside its turn: two would wait for each other.
  /// What it looked up itself earlier in its turn is its own affair.
  virtual void begin(GraceTicket& ticket) = 0;
  /// True when the grace period that begin() began is over. Called again and again, in later turns too.
  virtual bool over(GraceTicket& ticket) = 0;
};

}  // namespace uroce::mem
