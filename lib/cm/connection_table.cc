// Decision: communication ids begin at a random generation and index, and the salt of the lists is never
// sent. A restarted program does not meet its predecessor's TIMEWAIT, and peers cannot choose numbers that
// hash to one list.
//
// Decision: behind a service the ids of each program begin with a prefix of its own (AgentOptions::prefix).
// The service needs no table of connections. Cost: an id comes back after 32 connections in its place, not
// 4096.
#include "cm/connection_table.h"

#include <bit>
#include <new>

#include "base/values/contract.h"

namespace uroce::cm {
namespace {

bool is_sidr(const Connection& connection) {
  return connection.state == State::kSidrReqSent || connection.state == State::kSidrReqReceived;
}

}  // namespace

ConnectionTable::ConnectionTable(size_t capacity, uint32_t salt, CommPrefix prefix, uint32_t first_number)
    : prefix_mask_(~static_cast<uint32_t>(UINT32_MAX >> prefix.bits)),
      index_mask_((uint32_t{1} << index_bits(prefix)) - 1),
      first_generation_((prefix.bits == 0 ? 0 : prefix.value << (32 - prefix.bits)) |
                        (first_number & ~prefix_mask_ & ~index_mask_)),
      shift_((first_number & index_mask_) % index_mask_),
      salt_(salt),
      connections_(capacity + 1),
      by_comm_(std::bit_ceil(capacity + 1)),
      by_qp_(by_comm_.size()) {
  UROCE_ASSERT(capacity > 0 && capacity <= capacity_max(prefix));
}

Connection& ConnectionTable::make() {
  Connection* const made = new (&connections_[++made_]) Connection;
  made->local.value = first_generation_ | turned(made_);
  ++in_use_;
  return *made;
}

Connection* ConnectionTable::allocate() {
  if (made_ < capacity()) return &make();
  if (first_free_ == 0) return nullptr;
  Connection& connection = connections_[first_free_];
  first_free_ = connection.next_free;
  if (first_free_ == 0) last_free_ = 0;
  connection.next_free = 0;
  ++in_use_;
  return &connection;
}

void ConnectionTable::free(Connection& connection) {
  UROCE_ASSERT(!connection.armed() && !connection.due);
  const uint32_t number = connection.local.value;
  const CommId next_number{(number & prefix_mask_) | ((number + index_mask_ + 1) & ~prefix_mask_)};
  connection = Connection{};
  connection.local = next_number;
  const uint32_t index = index_of(connection);
  (last_free_ == 0 ? first_free_ : connections_[last_free_].next_free) = index;
  last_free_ = index;
  --in_use_;
}

Connection* ConnectionTable::find(CommId local) {
  const uint32_t index = turned_back(local.value);
  if (index == 0 || index > made_) return nullptr;
  Connection& connection = connections_[index];
  return connection.state != State::kFree && connection.local == local ? &connection : nullptr;
}

uint32_t& ConnectionTable::head(LazyArray<uint32_t>& heads, const Gid& address, uint32_t number) const {
  uint64_t hash = uint64_t{salt_} << 32 | number;
  for (const uint8_t byte : address.bytes) hash = (hash ^ byte) * 0x9E37'79B9'7F4A'7C15u;
  return heads[(hash >> 32) & (heads.size() - 1)];
}

void ConnectionTable::push(uint32_t& head, Connection& connection, Link link) {
  connection.*link = head;
  head = index_of(connection);
}

void ConnectionTable::remove(uint32_t& head, Connection& connection, Link link) {
  const uint32_t index = index_of(connection);
  for (uint32_t* at = &head; *at != 0; at = &(connections_[*at].*link)) {
    if (*at != index) continue;
    *at = connection.*link;
    connection.*link = 0;
    return;
  }
}

void ConnectionTable::enlist_comm(Connection& connection) {
  push(head(by_comm_, connection.address.remote, connection.remote.value), connection,
       &Connection::next_of_comm);
}

void ConnectionTable::enlist_qp(Connection& connection) {
  if (connection.remote_qp == QpNumber{}) return;
  push(head(by_qp_, connection.address.remote, connection.remote_qp.value), connection,
       &Connection::next_of_qp);
}

void ConnectionTable::strike_comm(Connection& connection) {
  remove(head(by_comm_, connection.address.remote, connection.remote.value), connection,
         &Connection::next_of_comm);
}

void ConnectionTable::strike_qp(Connection& connection) {
  remove(head(by_qp_, connection.address.remote, connection.remote_qp.value), connection,
         &Connection::next_of_qp);
}

Connection* ConnectionTable::find_comm(const Gid& address, CommId remote, bool sidr) {
  for (uint32_t i = head(by_comm_, address, remote.value); i != 0; i = connections_[i].next_of_comm) {
    Connection& connection = connections_[i];
    if (connection.remote == remote && connection.address.remote == address && is_sidr(connection) == sidr)
      return &connection;
  }
  return nullptr;
}

Connection* ConnectionTable::find_qp(const Gid& address, uint64_t guid, QpNumber qp) {
  for (uint32_t i = head(by_qp_, address, qp.value); i != 0; i = connections_[i].next_of_qp) {
    Connection& connection = connections_[i];
    if (connection.remote_qp == qp && connection.remote_guid == guid && connection.address.remote == address)
      return &connection;
  }
  return nullptr;
}

}  // namespace uroce::cm
