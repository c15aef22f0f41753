#pragma once

#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "base/values/result.h"
#include "host/port_numbers.h"
#include "host/shared_device.h"

namespace uroce::rdmacm {

/// The ports that ids are bound to. A device that a service shares has a table of ports for all programs of
/// the host, kept by the service; for all other devices the process has one of its own. An id that is bound
/// to an address of one device has its port in the table of that device, any other in every table. Calls may
/// wait for the service, a few microseconds for each table. Thread-safe.
class Ports {
 public:
  /// Which table: that of a shared device, or with null the process's own.
  using Table = host::SharedDevice*;

  /// `tables` finds the table of each open device. Once a port is bound the answer does not change, but for
  /// that of a forked child, which has no device.
  Ports(uint64_t seed, std::function<std::vector<Table>()> tables)
      : find_tables_(std::move(tables)), own_(seed) {}

  /// The port, for the id with this handle: the same in each table; without `only` in all of them. EINVAL:
  /// the id has a port; EADDRINUSE: the port is another's; EADDRNOTAVAIL: none is left; or the service's
  /// error.
  Result<uint16_t> bind(uint64_t handle, const host::PortRequest& request, std::optional<Table> only);
  /// Keeps the id's port from being shared, for a listener. EADDRINUSE: others share it.
  Status claim(uint64_t handle);
  /// Gives up the id's port, if it has one.
  void release(uint64_t handle);

 private:
  /// The tables of all open devices, each once.
  [[nodiscard]] std::vector<Table> tables() const;
  /// The tables that have a port for the id and can be asked.
  [[nodiscard]] std::vector<Table> tables_of(uint64_t handle);
  Result<uint16_t> bind_all(const std::vector<Table>& tables, uint64_t handle,
                            const host::PortRequest& request);
  Result<uint16_t> bind_in(Table table, uint64_t handle, const host::PortRequest& request);
  Status claim_in(Table table, uint64_t handle);
  void release_in(Table table, uint64_t handle);

  const std::function<std::vector<Table>()> find_tables_;
  std::mutex mutex_;  // never held while the service is asked
  host::PortNumbers own_;
  std::unordered_map<uint64_t, std::vector<Table>> bound_;  // by handle; also ids that are being bound
};

}  // namespace uroce::rdmacm
