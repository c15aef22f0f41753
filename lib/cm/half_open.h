#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/tables/lazy_array.h"
#include "cm/connection_table.h"

namespace uroce::cm {

/// The half-open connections of an agent: made by a peer's request, and neither established nor ended. One
/// list for each listener, oldest first, and a count for each host, so that a host with many of them gives
/// way to a host with fewer. Nothing is allocated after construction.
class HalfOpen {
 public:
  /// `listeners`: one more than the highest listener index. Index 0 holds those whose listener has ended.
  HalfOpen(ConnectionTable& table, size_t listeners, uint32_t salt);

  /// `connection.address.remote` is set and stays.
  void add(Connection& connection, uint32_t listener);
  /// If it is in a list.
  void remove(Connection& connection);
  /// The listener ends; what is half-open goes on without it.
  void end_listener(uint32_t listener);

  [[nodiscard]] size_t of_listener(uint32_t listener) const { return lists_[listener].count; }
  [[nodiscard]] size_t total() const { return total_; }
  /// Which connection of the listener gives way to a new one from `host`: the oldest of the host that has
  /// most, if that is more than `host` has; else null. Linear in the listener's half-open connections.
  [[nodiscard]] Connection* to_displace(uint32_t listener, const Gid& host);

 private:
  struct List {
    uint32_t first = 0;  // indexes of connections, 0: none
    uint32_t last = 0;
    uint32_t count = 0;
  };
  void append(Connection& connection, uint32_t listener);
  void unlink(Connection& connection);
  [[nodiscard]] uint32_t& count_of(const Gid& host);

  ConnectionTable& table_;
  const uint32_t salt_;  // a peer does not choose with which others it shares a count
  std::vector<List> lists_;
  LazyArray<uint32_t> hosts_;  // by hash; hosts that share a place are taken for one
  size_t total_ = 0;
};

}  // namespace uroce::cm
