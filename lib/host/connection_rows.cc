// Decision: a program's connections stand in its own memory, for the service to disconnect when the program
// ends. Otherwise the service would have to follow each handshake. Cost: 60 bytes a connection.
#include "host/connection_rows.h"

#include <algorithm>

#include "host/shared_device.h"

namespace uroce::host {
namespace {

/// A copy, which the row's process does not change any more.
OpenConnection copy_of(const ConnectionRow& row) {
  // Acquire: pairs with the store of a row that was written.
  const uint32_t local = row.local.load(std::memory_order_acquire);
  return {.local = local,
          .remote = row.remote,
          .remote_qp = QpNumber{row.remote_qp & QpNumber::kMask},
          .local_address = row.local_address,
          .remote_address = row.remote_address,
          .link = row.link,
          .traffic_class = row.traffic_class,
          .hop_limit = row.hop_limit,
          .service_level = row.service_level,
          .flow_label = row.flow_label};
}

bool is_multicast(MacAddress mac) { return (mac.bytes[0] & 1) != 0; }

bool is_sound(const OpenConnection& connection, NumberBlock numbers) {
  return numbers.contains(owner_of_comm_id(connection.local)) && connection.remote != 0 &&
         connection.link != MacAddress{} && !is_multicast(connection.link) &&
         connection.remote_address != Gid{} &&
         connection.local_address.is_ipv4() == connection.remote_address.is_ipv4();
}

}  // namespace

void ConnectionRows::write(uint32_t row, const OpenConnection& connection) {
  if (row >= rows_.size()) return;
  ConnectionRow& to = rows_[row];
  // Relaxed: the reader comes when this process has ended, or finds a row without an id.
  to.local.store(0, std::memory_order_relaxed);
  to.remote = connection.remote;
  to.remote_qp = connection.remote_qp.value;
  to.flow_label = connection.flow_label;
  to.traffic_class = connection.traffic_class;
  to.hop_limit = connection.hop_limit;
  to.service_level = connection.service_level;
  to.link = connection.link;
  to.local_address = connection.local_address;
  to.remote_address = connection.remote_address;
  // Release: pairs with the reader's load. The count has one writer.
  to.local.store(connection.local, std::memory_order_release);
  if (used_->load(std::memory_order_relaxed) <= row) used_->store(row + 1, std::memory_order_relaxed);
}

void ConnectionRows::clear(uint32_t row) {
  // Relaxed: as above.
  if (row < rows_.size()) rows_[row].local.store(0, std::memory_order_relaxed);
}

std::vector<OpenConnection> read_connections(std::span<const ConnectionRow> rows, NumberBlock numbers) {
  std::vector<OpenConnection> open;
  for (const ConnectionRow& row : rows) {
    const OpenConnection connection = copy_of(row);
    if (connection.local != 0 && is_sound(connection, numbers)) open.push_back(connection);
  }
  std::ranges::sort(open, {}, &OpenConnection::local);
  // An id is one connection's: what is looked up by it is one row, however many the program has written.
  const auto same = std::ranges::unique(open, {}, &OpenConnection::local);
  open.erase(same.begin(), same.end());
  return open;
}

}  // namespace uroce::host
