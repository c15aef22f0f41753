// Decision: half-open connections are bounded, and a host with many gives way to a host with fewer. One
// address could fill a backlog, and a fixed share would refuse a thousand processes of one host. Cost: a
// displaced REQ is repeated by its peer; an accepted one ends by a REJ and UNREACHABLE.
//
// Decision: all programs of a host count as one host, because only addresses tell peers apart. Cost: a
// program that floods a listener keeps out the others of its host.
#include "cm/half_open.h"

#include <bit>

#include "base/values/contract.h"

namespace uroce::cm {
namespace {

// A host that shares its place with another one is displaced too early: once in four times as many
// connections as there can be.
constexpr size_t kPlacesPerConnection = 4;

}  // namespace

HalfOpen::HalfOpen(ConnectionTable& table, size_t listeners, uint32_t salt)
    : table_(table),
      salt_(salt),
      lists_(listeners),
      hosts_(kPlacesPerConnection * std::bit_ceil(table.capacity() + 1)) {}

uint32_t& HalfOpen::count_of(const Gid& host) {
  uint64_t hash = uint64_t{salt_} << 32 | salt_;
  for (const uint8_t byte : host.bytes) hash = (hash ^ byte) * 0x9E37'79B9'7F4A'7C15u;
  return hosts_[(hash >> 32) & (hosts_.size() - 1)];
}

void HalfOpen::add(Connection& connection, uint32_t listener) {
  UROCE_ASSERT(!connection.half_open);
  connection.half_open = true;
  ++total_;
  ++count_of(connection.address.remote);
  append(connection, listener);
}

void HalfOpen::remove(Connection& connection) {
  if (!connection.half_open) return;
  unlink(connection);
  connection.half_open = false;
  --total_;
  --count_of(connection.address.remote);
}

void HalfOpen::end_listener(uint32_t listener) {
  UROCE_ASSERT(listener != 0);
  while (lists_[listener].first != 0) {
    Connection& connection = table_.at(lists_[listener].first);
    unlink(connection);
    append(connection, 0);
  }
}

Connection* HalfOpen::to_displace(uint32_t listener, const Gid& host) {
  Connection* found = nullptr;
  uint32_t most = count_of(host);
  for (uint32_t i = lists_[listener].first; i != 0; i = table_.at(i).next_half_open) {
    Connection& connection = table_.at(i);
    const uint32_t count = count_of(connection.address.remote);
    if (count <= most) continue;
    most = count;
    found = &connection;
  }
  return found;
}

void HalfOpen::append(Connection& connection, uint32_t listener) {
  List& list = lists_[listener];
  const uint32_t index = table_.index_of(connection);
  connection.half_open_of = listener;
  connection.previous_half_open = list.last;
  connection.next_half_open = 0;
  (list.last == 0 ? list.first : table_.at(list.last).next_half_open) = index;
  list.last = index;
  ++list.count;
}

void HalfOpen::unlink(Connection& connection) {
  List& list = lists_[connection.half_open_of];
  const uint32_t next = connection.next_half_open;
  const uint32_t previous = connection.previous_half_open;
  (previous == 0 ? list.first : table_.at(previous).next_half_open) = next;
  (next == 0 ? list.last : table_.at(next).previous_half_open) = previous;
  --list.count;
}

}  // namespace uroce::cm
