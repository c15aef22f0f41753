// An entry of the key table is an object, declared behind what it points to. The destructor of a region that
// was not ended unpublishes the entry and waits for the grace period first, whatever was forgotten or refused
// before. Cost: a weak pointer per region, and a destructor that may wait.
#include "mem/keys/published_entry.h"

#include "base/values/contract.h"
#include "mem/keys/region_table.h"

namespace uroce::mem {

Status PublishedEntry::publish(RegionTable& table, const RegionBinding& binding) {
  UROCE_ASSERT(table_ == nullptr && !unpublished_);
  const Result<MemoryKey> key = table.make_entry(binding);
  if (!key) return key.error();
  table_ = &table;
  alive_ = table.alive();
  key_ = *key;
  return {};
}

Status PublishedEntry::publish_for_consumer(RegionTable& table, const RegionBinding& binding,
                                            KeyHistory& history) {
  UROCE_ASSERT(table_ == nullptr && !unpublished_);
  const Result<MemoryKey> key = table.make_entry_for_consumer(binding, history);
  if (!key) return key.error();
  table_ = &table;
  alive_ = table.alive();
  key_ = *key;
  of_consumer_ = true;
  return {};
}

void PublishedEntry::unpublish() {
  UROCE_ASSERT(published() && !unpublished_);
  table_->write_entry({.key = table_->read_entry(key_).key});
  unpublished_ = true;
}

void PublishedEntry::give_back(const KeyHistory* history) {
  UROCE_ASSERT(published() && unpublished_);
  const MemoryKey last = table_->read_entry(key_).key;
  if (of_consumer_) {
    table_->give_back(last, history != nullptr ? *history : KeyHistory::all());
  } else {
    table_->give_back(last);
  }
  table_ = nullptr;
}

void PublishedEntry::withdraw() {
  if (!published()) return;
  if (!unpublished_) {
    unpublish();
    table_->wait_for_grace();
  }
  give_back();
}

}  // namespace uroce::mem
