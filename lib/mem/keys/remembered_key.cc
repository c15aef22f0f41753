// Most queue pairs use one key. So each remembers what its last key is bound to, for each right, and trusts
// it while the first word of the entry is the same. The sequence in that word has 31 bits: an entry that
// changed exactly 2^31 times between two uses would pass as unchanged.
#include "mem/keys/remembered_key.h"

namespace uroce::mem {

constinit const RegionEntry RememberedKey::kNoEntry;
constinit const RegionEntry::Run RememberedKey::kNoRun;

const RegionEntry::Run& RememberedKey::look_up(const RegionTable& table, MemoryKey key, DomainId domain) {
  const RegionEntry* const entry = table.entry_of(key);
  if (entry == nullptr) return kNoRun;
  const RegionEntry::Run run = entry->run(key, domain, needed_);
  if (!run.right) return kNoRun;
  key_ = key;
  domain_ = domain;
  entry_ = entry;
  return run_ = run;
}

}  // namespace uroce::mem
