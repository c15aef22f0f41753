#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/keyed_hash.h"
#include "base/values/time.h"
#include "wire/cm_message.h"

namespace uroce::service {

/// Which program got which request (REQ, SIDR_REQ) of late. A peer repeats a request when the answer is lost,
/// maybe after the program has ceased to listen, and gives it up by a REJ that names nothing but the peer's
/// own number. A table of fixed size, in which newer requests displace older ones; where a peer's requests
/// go in it cannot be foretold.
class RequestRoutes {
 public:
  static constexpr size_t kEntries = 4096;
  /// Peers repeat a request for no longer.
  static constexpr Duration kKept = seconds(60);

  explicit RequestRoutes(const HashKey& key) : key_(key), entries_(kEntries) {}

  void note(const Gid& source, wire::CommId sender, uint32_t program, Instant now) {
    entry_of(source, sender) = {source, sender, program, now + kKept};
  }
  /// The program; 0: none is known.
  [[nodiscard]] uint32_t find(const Gid& source, wire::CommId sender, Instant now) {
    const Entry& entry = entry_of(source, sender);
    const bool known = entry.source == source && entry.sender == sender && now < entry.until;
    return known ? entry.program : 0;
  }

 private:
  struct Entry {
    Gid source;
    wire::CommId sender;
    uint32_t program = 0;
    Instant until{INT64_MIN};
  };
  Entry& entry_of(const Gid& source, wire::CommId sender) {
    using Words = std::array<uint64_t, 2>;
    const auto words = std::bit_cast<Words>(source.bytes);
    return entries_[keyed_hash(key_, words[0] ^ sender.value, words[1]) % kEntries];
  }

  const HashKey key_;
  std::vector<Entry> entries_;
};

}  // namespace uroce::service
