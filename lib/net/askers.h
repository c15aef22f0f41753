#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace uroce::net {

/// The party for which an address is resolved: a user of the machine, or with 0 the device itself.
using Asker = uint64_t;

/// How many entries of a table each asker has, of those that have any. They are few: a list. Nothing is
/// allocated after construction.
class Askers {
 public:
  struct Share {
    Asker asker = 0;
    size_t count = 0;
  };

  /// `entries_max`: of all askers together.
  explicit Askers(size_t entries_max) { shares_.reserve(entries_max); }

  void add(Asker asker) {
    ++total_;
    const auto at = std::ranges::find(shares_, asker, &Share::asker);
    if (at != shares_.end())
      ++at->count;
    else
      shares_.push_back({asker, 1});
  }
  /// One that was added.
  void remove(Asker asker) {
    --total_;
    const auto at = std::ranges::find(shares_, asker, &Share::asker);
    if (--at->count > 0) return;
    *at = shares_.back();
    shares_.pop_back();
  }
  [[nodiscard]] size_t total() const { return total_; }
  [[nodiscard]] size_t of(Asker asker) const {
    const auto at = std::ranges::find(shares_, asker, &Share::asker);
    return at == shares_.end() ? 0 : at->count;
  }
  /// The asker with most entries; a count of 0 if there are no entries.
  [[nodiscard]] Share largest() const {
    const auto at = std::ranges::max_element(shares_, {}, &Share::count);
    return at == shares_.end() ? Share{} : *at;
  }

 private:
  std::vector<Share> shares_;
  size_t total_ = 0;
};

}  // namespace uroce::net
