// Dirty FMRs are unmapped by the call that reaches the watermark, not by a thread of the stack; that call
// takes longer. A user's flush function may do anything meanwhile. So the pool refuses FMRs while it ends,
// and gives EBUSY when a flush function has not returned. After user code ran it asks all that it needs
// again, under the lock that keeps it true.
#include "mem/regions/fmr_pool.h"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <string>
#include <utility>

#include "base/values/contract.h"

namespace uroce::mem {

FmrPool::FmrPool(Options options)
    : options_(std::move(options)), fmrs_(options_.size), buckets_(std::bit_ceil(2 * options_.size)) {
  batch_.reserve(options_.size);
}

Result<std::unique_ptr<FmrPool>> FmrPool::make(RegionTable& table, const Options& options) {
  if (options.size == 0 || options.size > kSizeMax || options.dirty_watermark == 0 ||
      options.dirty_watermark > options.size) {
    return Error{EINVAL, "a pool of " + std::to_string(options.size) + " FMRs with a watermark of " +
                             std::to_string(options.dirty_watermark)};
  }
  std::unique_ptr<FmrPool> pool(new FmrPool(options));
  Status status;
  for (PooledFmr& fmr : pool->fmrs_) {
    Result<std::unique_ptr<Fmr>> made = Fmr::make(table, options.fmr);
    if (!made) {
      status = made.error();
      break;
    }
    fmr.fmr_ = std::move(*made);
    fmr.pool_ = pool.get();
    fmr.number_ = static_cast<uint32_t>(&fmr - pool->fmrs_.data());
    pool->free_.push_back(&fmr);
    fmr.place_ = std::prev(pool->free_.end());
  }
  if (status.ok()) return pool;
  // None is in use; what should not end goes with the pool.
  (void)pool->end();
  return status.error();
}

Result<PooledFmr*> FmrPool::map(std::span<const uint64_t> pages, uint64_t iova) {
  std::unique_lock lock(mutex_);
  if (ending_) return Error{EBUSY, "the pool is ending"};
  if (PooledFmr* hit = find(pages, iova); hit != nullptr) {
    UROCE_ASSERT((hit->users_ != 0) == (hit->state_ == PooledFmr::State::kInUse));
    if (hit->users_++ == 0) move(*hit, PooledFmr::State::kInUse);
    ++statistics_.hits;
    return hit;
  }
  while (free_.empty()) {
    if (dirty_.empty() && flushing_.empty()) return Error{EAGAIN, "all FMRs of the pool are in use"};
    lock.unlock();
    const Status flushed = flush(false);
    lock.lock();
    if (!flushed) return flushed.error();
    if (ending_) return Error{EBUSY, "the pool is ending"};  // since the lock was left
  }
  PooledFmr& fmr = *free_.front();
  UROCE_ASSERT(fmr.users_ == 0 && fmr.state_ == PooledFmr::State::kFree);
  leave(fmr);
  move(fmr, PooledFmr::State::kInUse);
  fmr.users_ = 1;
  lock.unlock();

  const Status status = fmr.fmr_->map(pages, iova);
  fmr.key_ = fmr.fmr_->key();
  if (status.ok() && options_.mapped) options_.mapped(fmr);
  lock.lock();
  enter(fmr);
  if (!status) {
    fmr.users_ = 0;
    move(fmr, PooledFmr::State::kFree);
    return status.error();
  }
  ++statistics_.misses;
  ++statistics_.maps;
  return &fmr;
}

Status FmrPool::unmap(PooledFmr& fmr) {
  bool due = false;
  {
    const std::lock_guard lock(mutex_);
    if (fmr.pool_ != this || fmr.users_ == 0) return Error{EINVAL, "the FMR is not in use"};
    if (--fmr.users_ != 0) return {};
    const bool used_up = fmr.fmr_->maps() == options_.fmr.maps_max;
    move(fmr, used_up ? PooledFmr::State::kDirty : PooledFmr::State::kFree);
    due = dirty_.size() >= options_.dirty_watermark;
  }
  // What cannot be unmapped stays dirty; this one is given back all the same.
  if (due) (void)flush(false);
  return {};
}

Status FmrPool::flush() { return flush(true); }

/// `all`: also those that could be mapped again as they are. Returns after those that another thread is
/// flushing.
Status FmrPool::flush(bool all) {
  {
    const std::lock_guard flushing(flush_mutex_);
    if (!take_batch(all)) return {};
    if (Status status = unmap_batch(); !status) return status;
  }
  if (!options_.flushed) return {};
  options_.flushed();
  const std::lock_guard lock(mutex_);
  UROCE_ASSERT(notifying_ > 0);
  --notifying_;
  return {};
}

/// Under flush_mutex_.
Status FmrPool::unmap_batch() {
  const Status status = Fmr::unmap(batch_);
  const std::lock_guard lock(mutex_);
  const PooledFmr::State next = status.ok() ? PooledFmr::State::kFree : PooledFmr::State::kDirty;
  for (PooledFmr* fmr : flushing_) {
    fmr->state_ = next;
    if (!status) enter(*fmr);  // as before the attempt
  }
  List& list = list_of(next);
  list.splice(list.begin(), flushing_);
  if (!status) return status;
  statistics_.unmaps += batch_.size();
  ++statistics_.flushes;
  // Before another thread may flush, so that end() knows of it.
  if (options_.flushed) ++notifying_;
  return {};
}

/// False: there is nothing to unmap.
bool FmrPool::take_batch(bool all) {
  const std::lock_guard lock(mutex_);
  flushing_.splice(flushing_.end(), dirty_);
  if (all) {
    for (auto at = free_.begin(); at != free_.end();) {
      const auto here = at++;
      if ((*here)->fmr_->maps() != 0) flushing_.splice(flushing_.end(), free_, here);
    }
  }
  batch_.clear();
  for (PooledFmr* fmr : flushing_) {
    leave(*fmr);
    batch_.push_back(fmr->fmr_.get());
  }
  return !batch_.empty();
}

Status FmrPool::idle() const {
  if (!in_use_.empty()) return Error{EBUSY, std::to_string(in_use_.size()) + " FMRs are in use"};
  if (notifying_ != 0) return Error{EBUSY, "a flush has not returned"};
  return {};
}

/// `flushed` is the user's code: what was true before it ran is asked again afterwards, under the lock that
/// keeps it true until the last FMR is ended. An FMR that does not end stays in the pool with its page list.
Status FmrPool::end() {
  {
    const std::lock_guard lock(mutex_);
    if (ending_) return Error{EBUSY, "the pool is ending"};
    if (Status status = idle(); !status) return status;
    ending_ = true;
  }
  Status status = flush(true);
  const std::lock_guard flushing(flush_mutex_);
  const std::lock_guard lock(mutex_);
  ending_ = false;
  if (status.ok()) status = idle();
  if (!status) return status;
  for (PooledFmr& fmr : fmrs_) {
    if (fmr.fmr_ == nullptr) continue;
    status = fmr.fmr_->end();
    if (!status) break;
    list_of(fmr.state_).erase(fmr.place_);
    fmr.fmr_.reset();
  }
  return status;
}

FmrPool::Statistics FmrPool::statistics() const {
  const std::lock_guard lock(mutex_);
  Statistics now = statistics_;
  now.in_use = static_cast<uint32_t>(in_use_.size());
  now.free = static_cast<uint32_t>(free_.size());
  now.dirty = static_cast<uint32_t>(dirty_.size() + flushing_.size());
  return now;
}

FmrPool::List& FmrPool::list_of(PooledFmr::State state) {
  switch (state) {
    case PooledFmr::State::kFree:
      return free_;
    case PooledFmr::State::kInUse:
      return in_use_;
    case PooledFmr::State::kDirty:
      break;
  }
  return dirty_;
}

void FmrPool::move(PooledFmr& fmr, PooledFmr::State to) {
  UROCE_ASSERT(fmr.pool_ == this && *fmr.place_ == &fmr);
  List& list = list_of(to);
  list.splice(list.end(), list_of(fmr.state_), fmr.place_);
  fmr.state_ = to;
}

PooledFmr*& FmrPool::bucket(std::span<const uint64_t> pages, uint64_t iova) {
  // Pages and addresses are multiples of the page size: the low bits say nothing.
  uint64_t hash = iova;
  for (const uint64_t page : pages) {
    hash = (hash ^ page) * 0x9E3779B97F4A7C15;
    hash ^= hash >> 29;
  }
  return buckets_[(hash * 0x9E3779B97F4A7C15 >> 32) & (buckets_.size() - 1)];
}

PooledFmr* FmrPool::find(std::span<const uint64_t> pages, uint64_t iova) {
  if (!options_.cache || pages.empty()) return nullptr;
  for (PooledFmr* fmr = bucket(pages, iova); fmr != nullptr; fmr = fmr->next_) {
    if (fmr->fmr_->iova() == iova && std::ranges::equal(fmr->fmr_->pages(), pages)) return fmr;
  }
  return nullptr;
}

void FmrPool::enter(PooledFmr& fmr) {
  if (!options_.cache || fmr.fmr_->pages().empty()) return;
  UROCE_ASSERT(fmr.next_ == nullptr);
  PooledFmr*& first = bucket(fmr.fmr_->pages(), fmr.fmr_->iova());
  fmr.next_ = std::exchange(first, &fmr);
}

void FmrPool::leave(PooledFmr& fmr) {
  if (!options_.cache || fmr.fmr_->pages().empty()) return;
  PooledFmr** at = &bucket(fmr.fmr_->pages(), fmr.fmr_->iova());
  while (*at != &fmr) {
    UROCE_ASSERT(*at != nullptr);  // what is mapped is in its bucket
    at = &(*at)->next_;
  }
  *at = std::exchange(fmr.next_, nullptr);
}

}  // namespace uroce::mem
