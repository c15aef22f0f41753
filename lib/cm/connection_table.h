#pragma once

#include <cstddef>
#include <type_traits>

#include "base/tables/lazy_array.h"
#include "cm/connection.h"

namespace uroce::cm {

/// What all numbers of an agent begin with, so that a message's number says which of several programs behind
/// one address it is for.
struct CommPrefix {
  uint32_t value = 0;  // of `bits` bits
  uint32_t bits = 0;   // 0: there is no prefix
};

/// All connections of an agent: found by their own number, by the peer's, and by the peer's queue pair.
/// Address space is taken at construction, memory with the connections.
class ConnectionTable {
 public:
  /// A number is the prefix, a generation and an index. A prefix takes bits of both others: 12 bits of prefix
  /// leave 5 of the generation and 15 of the index.
  [[nodiscard]] static constexpr uint32_t index_bits(CommPrefix prefix) {
    constexpr uint32_t kGenerationBits = 12;
    constexpr uint32_t kGenerationBitsWithPrefix = 5;
    return 32 - prefix.bits - (prefix.bits == 0 ? kGenerationBits : kGenerationBitsWithPrefix);
  }
  /// How many connections there are numbers for.
  [[nodiscard]] static constexpr size_t capacity_max(CommPrefix prefix) {
    return (size_t{1} << index_bits(prefix)) - 1;
  }

  /// `capacity` up to capacity_max(). `salt`: random, of the lists' hash; never sent. `first_number`: random
  /// in generation and index, so that the numbers of an earlier process with this address find nothing, and
  /// peers that still have it in TIMEWAIT do not take a new connection for one of its.
  ConnectionTable(size_t capacity, uint32_t salt, CommPrefix prefix = {}, uint32_t first_number = 0);

  /// A connection with a number of its own, or null when there is none left. Others than the last freed come
  /// first.
  Connection* allocate();
  /// In no list of a peer, no timer armed, not due.
  void free(Connection& connection);

  [[nodiscard]] Connection* find(CommId local);
  [[nodiscard]] size_t in_use() const { return in_use_; }
  [[nodiscard]] size_t capacity() const { return connections_.size() - 1; }

  /// After `address.remote` and `remote` were set, or `remote_qp` and `remote_guid`; a queue pair of number 0
  /// is none.
  void enlist_comm(Connection& connection);
  void enlist_qp(Connection& connection);
  /// If it is in the list.
  void strike_comm(Connection& connection);
  void strike_qp(Connection& connection);

  /// Made by the REQ or SIDR_REQ that the peer at `address` numbered `remote`, or null.
  [[nodiscard]] Connection* find_comm(const Gid& address, CommId remote, bool sidr);
  /// Whose other end is the queue pair `qp` of the channel adapter `guid` at `address`, or null.
  [[nodiscard]] Connection* find_qp(const Gid& address, uint64_t guid, QpNumber qp);

  [[nodiscard]] uint32_t index_of(const Connection& connection) const {
    return static_cast<uint32_t>(&connection - connections_.data());
  }
  [[nodiscard]] Connection& at(uint32_t index) {
    UROCE_ASSERT(index <= made_);
    return connections_[index];
  }
  /// The highest index that was ever given out; all below it were, too.
  [[nodiscard]] uint32_t made() const { return made_; }

 private:
  using Link = uint32_t Connection::*;
  static_assert(std::is_trivially_destructible_v<Connection>);

  Connection& make();
  // Numbers of one generation are those of the indices, turned by shift_. None ends with an index of 0.
  [[nodiscard]] uint32_t turned(uint32_t index) const {
    return index + shift_ <= index_mask_ ? index + shift_ : index + shift_ - index_mask_;
  }
  [[nodiscard]] uint32_t turned_back(uint32_t number) const {
    const uint32_t turned = number & index_mask_;
    if (turned == 0) return 0;
    return turned > shift_ ? turned - shift_ : turned + index_mask_ - shift_;
  }

  [[nodiscard]] uint32_t& head(LazyArray<uint32_t>& heads, const Gid& address, uint32_t number) const;
  void push(uint32_t& head, Connection& connection, Link link);
  void remove(uint32_t& head, Connection& connection, Link link);

  const uint32_t prefix_mask_;
  const uint32_t index_mask_;
  const uint32_t first_generation_;    // with the prefix
  const uint32_t shift_;               // below index_mask_
  const uint32_t salt_;                // a peer does not choose which of the lists grows long
  LazyArray<Connection> connections_;  // [1, made_] are constructed
  LazyArray<uint32_t> by_comm_;
  LazyArray<uint32_t> by_qp_;
  uint32_t made_ = 0;
  uint32_t first_free_ = 0;
  uint32_t last_free_ = 0;
  size_t in_use_ = 0;
};

}  // namespace uroce::cm
