#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/values/identifiers.h"
#include "base/values/time.h"
#include "net/resolution_clients.h"

namespace uroce::net {

enum class NeighbourState : uint8_t {
  kFree,
  kAsking,  // `due` is when to ask again, or to give up
  kKnown,   // until `due`
  kSilent,  // asked often enough; stays until that has been told
  kFixed,   // configured
};

struct Neighbour {
  Gid address;
  MacAddress mac;
  NeighbourState state = NeighbourState::kFree;
  uint8_t asked = 0;
  bool off_link = false;        // why it is kSilent: there is no way
  bool wanted = false;          // by a caller; others are known because they asked for us
  ResolutionClient client = 0;  // that wanted it first
  Gid hop;                      // the neighbour that has the MAC, if a Resolver said so
  Instant due{};
  Instant since{};  // the question was asked
};

/// Neighbours by address: an open-addressed hash table at most half full. No allocation after construction.
class NeighbourTable {
 public:
  explicit NeighbourTable(size_t capacity);

  /// Pointers hold until the next insert() or erase().
  [[nodiscard]] Neighbour* find(const Gid& address);
  [[nodiscard]] const Neighbour* find(const Gid& address) const;
  /// A new entry for an address that is not there, or nullptr when the table is full.
  Neighbour* insert(const Gid& address);
  void erase(const Gid& address);

  [[nodiscard]] size_t size() const { return size_; }
  /// Every slot; kFree ones are no neighbours.
  [[nodiscard]] std::vector<Neighbour>& slots() { return slots_; }

 private:
  [[nodiscard]] size_t home(const Gid& address) const;
  [[nodiscard]] size_t probe(const Gid& address) const;  // its slot, or the free one where it would go

  std::vector<Neighbour> slots_;
  const size_t capacity_;
  size_t size_ = 0;
};

}  // namespace uroce::net
