#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace uroce::net {

/// The party for which an address is resolved: a user of the machine, or with 0 the device itself.
using ResolutionClient = uint64_t;

/// The number of table entries that each client has. Clients are few, so they are a list. Nothing is
/// allocated after construction.
class ResolutionClients {
 public:
  struct Share {
    ResolutionClient client = 0;
    size_t count = 0;
  };

  /// `entries_max`: of all clients together.
  explicit ResolutionClients(size_t entries_max) { shares_.reserve(entries_max); }

  void add(ResolutionClient client) {
    ++total_;
    const auto at = std::ranges::find(shares_, client, &Share::client);
    if (at != shares_.end())
      ++at->count;
    else
      shares_.push_back({client, 1});
  }
  /// One that was added.
  void remove(ResolutionClient client) {
    --total_;
    const auto at = std::ranges::find(shares_, client, &Share::client);
    if (--at->count > 0) return;
    *at = shares_.back();
    shares_.pop_back();
  }
  [[nodiscard]] size_t total() const { return total_; }
  [[nodiscard]] size_t of(ResolutionClient client) const {
    const auto at = std::ranges::find(shares_, client, &Share::client);
    return at == shares_.end() ? 0 : at->count;
  }
  /// The client with most entries; a count of 0 if there are no entries.
  [[nodiscard]] Share largest() const {
    const auto at = std::ranges::max_element(shares_, {}, &Share::count);
    return at == shares_.end() ? Share{} : *at;
  }

 private:
  std::vector<Share> shares_;
  size_t total_ = 0;
};

}  // namespace uroce::net
