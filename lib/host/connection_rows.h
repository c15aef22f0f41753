#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/tables/number_block.h"
#include "base/values/identifiers.h"
#include "host/memory_format.h"

namespace uroce::host {

/// A connection of rdma_cm, with what its end takes to be told to the peer: numbers as in the messages of the
/// communication manager, and how such messages reach it.
struct OpenConnection {
  uint32_t local = 0;   // communication id
  uint32_t remote = 0;  // the peer's
  QpNumber remote_qp;
  Gid local_address;
  Gid remote_address;
  MacAddress link;  // the Ethernet address that the peer's last message came from
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
  uint8_t service_level = 0;
  uint32_t flow_label = 0;
};

/// A program's rows in its own memory. Without rows nothing is shown. In turns of one poller.
class ConnectionRows {
 public:
  ConnectionRows() = default;
  /// `used`: how many of the rows were ever written.
  ConnectionRows(std::span<ConnectionRow> rows, std::atomic<uint32_t>& used) : rows_(rows), used_(&used) {}

  void write(uint32_t row, const OpenConnection& connection);
  /// The connection is over, or its peer has been told.
  void clear(uint32_t row);

 private:
  std::span<ConnectionRow> rows_;
  std::atomic<uint32_t>* used_ = nullptr;
};

/// What the rows of a program that has ended say of the connections that it left behind, in the order of
/// their ids. The program may have written anything: of each row one copy is looked at, and a row counts only
/// if its communication id begins with the program's own numbers, and its peer can be reached.
std::vector<OpenConnection> read_connections(std::span<const ConnectionRow> rows, NumberBlock numbers);

}  // namespace uroce::host
