#pragma once

#include <cstdint>

#include "cm/connection_table.h"

namespace uroce::cm {

/// The connections in TIMEWAIT that the consumer has released, oldest first: what gives way to a new
/// connection where the table is full. A DREQ that a peer repeats for one that is gone is still answered.
class ReleasedTimewait {
 public:
  explicit ReleasedTimewait(ConnectionTable& table) : table_(table) {}

  /// If it is not in the list.
  void add(Connection& connection) {
    if (connection.released_timewait) return;
    const uint32_t index = table_.index_of(connection);
    connection.released_timewait = true;
    connection.previous_timewait = last_;
    connection.next_timewait = 0;
    (last_ == 0 ? first_ : table_.at(last_).next_timewait) = index;
    last_ = index;
  }
  /// If it is in the list.
  void remove(Connection& connection) {
    if (!connection.released_timewait) return;
    connection.released_timewait = false;
    const uint32_t next = connection.next_timewait;
    const uint32_t previous = connection.previous_timewait;
    (previous == 0 ? first_ : table_.at(previous).next_timewait) = next;
    (next == 0 ? last_ : table_.at(next).previous_timewait) = previous;
  }
  /// Null: there is none.
  [[nodiscard]] Connection* oldest() { return first_ == 0 ? nullptr : &table_.at(first_); }

 private:
  ConnectionTable& table_;
  uint32_t first_ = 0;  // indexes of connections, 0: none
  uint32_t last_ = 0;
};

}  // namespace uroce::cm
