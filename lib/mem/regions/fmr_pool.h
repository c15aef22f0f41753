#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/region_table.h"
#include "mem/regions/fmr.h"

namespace uroce::mem {

class FmrPool;

/// An FMR of a pool, mapped; handed out by FmrPool::map().
class PooledFmr {
 public:
  /// Valid from map() to unmap().
  [[nodiscard]] MemoryKey key() const { return key_; }
  /// Its place in the pool, below the pool's size; always the same.
  [[nodiscard]] uint32_t number() const { return number_; }

 private:
  friend class FmrPool;
  enum class State : uint8_t { kFree, kInUse, kDirty };

  std::unique_ptr<Fmr> fmr_;
  FmrPool* pool_ = nullptr;
  uint32_t number_ = 0;
  MemoryKey key_;
  State state_ = State::kFree;
  uint32_t users_ = 0;
  std::list<PooledFmr*>::iterator place_;  // in the list of its state
  PooledFmr* next_ = nullptr;              // in the cache
};

/// FMRs that are mapped when they are needed and unmapped in batches, so that most of the time neither costs
/// a grace period.
///
/// What is given back stays mapped: it is free to be mapped to other pages, the one given back longest ago
/// first, until its maps are used up; then it is dirty. The thread that gives back the last that the
/// watermark allows unmaps all the dirty ones; there is no thread for it. While it stays mapped its key
/// works, its pages cannot be unmapped on the bus, and, in a pool with a cache, a caller that wants the same
/// pages at the same address gets it. flush() ends all that.
///
/// Control path, thread-safe. The object is destroyed after end(), or when the table is not used any more.
class FmrPool {
 public:
  static constexpr uint32_t kSizeMax = 1u << 16;

  struct Options {
    Fmr::Options fmr;
    uint32_t size = 0;
    uint32_t dirty_watermark = 0;  // 1 to size
    bool cache = false;
    // One was mapped anew, and no other thread can have it yet. Must not use the pool.
    std::function<void(PooledFmr&)> mapped;
    // After each flush, by the thread that flushed, without a lock. May use the pool.
    std::function<void()> flushed;
  };
  struct Statistics {
    uint64_t hits = 0;     // found in the cache
    uint64_t misses = 0;   // all others that succeeded
    uint64_t maps = 0;     // bindings made
    uint64_t unmaps = 0;   // bindings ended by a flush
    uint64_t flushes = 0;  // that unmapped something
    uint32_t in_use = 0;
    uint32_t free = 0;
    uint32_t dirty = 0;
  };

  /// EINVAL: limits, and as Fmr::make(). ENOMEM.
  static Result<std::unique_ptr<FmrPool>> make(RegionTable& table, const Options& options);

  /// EAGAIN: all are in use. EBUSY: the pool is ending. As Fmr::map() otherwise.
  Result<PooledFmr*> map(std::span<const uint64_t> pages, uint64_t iova);
  /// Gives back what one map() returned. EINVAL: it is not in use, or another pool's.
  Status unmap(PooledFmr& fmr);
  /// All that are not in use are unmapped: afterwards no byte is touched under their keys. Errors of
  /// Fmr::unmap().
  Status flush();
  /// Flushes, then ends every FMR. `flushed` may use the pool meanwhile, but gets no FMR any more. EBUSY:
  /// some are in use, another flush has not returned, or `flushed` calls this; the pool lives on then.
  Status end();

  [[nodiscard]] Statistics statistics() const;
  [[nodiscard]] const Options& options() const { return options_; }

 private:
  using List = std::list<PooledFmr*>;

  explicit FmrPool(Options options);
  PooledFmr* find(std::span<const uint64_t> pages, uint64_t iova);
  void enter(PooledFmr& fmr);
  void leave(PooledFmr& fmr);
  void move(PooledFmr& fmr, PooledFmr::State to);
  PooledFmr*& bucket(std::span<const uint64_t> pages, uint64_t iova);
  List& list_of(PooledFmr::State state);
  Status flush(bool all);
  Status unmap_batch();
  bool take_batch(bool all);
  /// All that end() needs. Under mutex_.
  [[nodiscard]] Status idle() const;

  const Options options_;
  std::vector<PooledFmr> fmrs_;

  // Before mutex_, if both.
  std::mutex flush_mutex_;
  std::vector<Fmr*> batch_;  // under flush_mutex_: what is being unmapped, in the order of flushing_

  mutable std::mutex mutex_;
  List free_;  // the first is the next to be mapped
  List in_use_;
  List dirty_;
  List flushing_;
  bool ending_ = false;
  uint32_t notifying_ = 0;           // calls of `flushed` that have not returned
  std::vector<PooledFmr*> buckets_;  // of the cache: all that are mapped
  Statistics statistics_;
};

}  // namespace uroce::mem
