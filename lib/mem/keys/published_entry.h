#pragma once

#include <memory>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "mem/keys/key_bytes.h"
#include "mem/keys/region_entry.h"

namespace uroce::mem {

class RegionTable;

/// An entry of the key table, for as long as this lives. What it points to must be declared before it in the
/// same object: then the entry is gone, and no poller is at that memory any more, before the memory goes.
///
/// Control path; one thread at a time. The table may be gone before it.
class PublishedEntry {
 public:
  PublishedEntry() = default;
  /// withdraw().
  ~PublishedEntry() { withdraw(); }
  PublishedEntry(const PublishedEntry&) = delete;
  PublishedEntry& operator=(const PublishedEntry&) = delete;

  /// Once. Errors: RegionTable::make_entry().
  Status publish(RegionTable& table, const RegionBinding& binding);
  /// Publishes a region whose key the consumer chooses. `history` is then what its index has had
  /// before.
  Status publish_for_consumer(RegionTable& table, const RegionBinding& binding, KeyHistory& history);

  /// Its index, with the key that it was made with.
  [[nodiscard]] MemoryKey first_key() const { return key_; }
  /// The entry is in the table.
  [[nodiscard]] bool published() const { return table_ != nullptr && !alive_.expired(); }

  /// Binds it to nothing: its key is dead for every lookup that begins now. Writes to the entry are
  /// serialised as always.
  void unpublish();
  /// After unpublish() and the grace period; the index may be another region's then. `history`: what the
  /// index has had by now, when the consumer chose the keys; without it they all count as used.
  void give_back(const KeyHistory* history = nullptr);
  /// All of it: unpublishes, waits and gives back, if that has not been done.
  void withdraw();

 private:
  RegionTable* table_ = nullptr;
  std::weak_ptr<const void> alive_;
  MemoryKey key_;
  bool unpublished_ = false;
  bool of_consumer_ = false;
};

}  // namespace uroce::mem
