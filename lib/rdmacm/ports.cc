// Decision: a port is unique for all programs that share a device, by a table that the service keeps for
// each. An id at 0.0.0.0, [::] or a loopback address has its port in the tables of all open devices. Cost: a
// message to the service for each table.
#include "rdmacm/ports.h"

#include <algorithm>
#include <cerrno>

namespace uroce::rdmacm {
namespace {

// A port that one table has given out may be in use in another one: so often another one is tried.
constexpr int kAttemptsMax = 64;

}  // namespace

std::vector<Ports::Table> Ports::tables() const {
  std::vector<Table> all;
  for (const Table table : find_tables_()) {
    if (std::ranges::find(all, table) == all.end()) all.push_back(table);
  }
  if (all.empty()) all.push_back(nullptr);
  return all;
}

std::vector<Ports::Table> Ports::tables_of(uint64_t handle) {
  const std::vector<Table> all = tables();
  const std::lock_guard guard(mutex_);
  const auto found = bound_.find(handle);
  if (found == bound_.end()) return {};
  std::vector<Table> its = found->second;
  // A forked child leaves alone what its parent has bound with the service.
  std::erase_if(its,
                [&](Table table) { return table != nullptr && std::ranges::find(all, table) == all.end(); });
  return its;
}

Result<uint16_t> Ports::bind(uint64_t handle, const host::PortRequest& request, std::optional<Table> only) {
  const std::vector<Table> wanted = only ? std::vector{*only} : tables();
  {
    const std::lock_guard guard(mutex_);
    // From now on no other thread binds the id.
    if (!bound_.emplace(handle, wanted).second) return Error{EINVAL, "the id is bound"};
  }
  Result<uint16_t> port = bind_all(wanted, handle, request);
  for (int i = 1; i < kAttemptsMax && request.port == 0 && !port && port.error().code == EADDRINUSE; ++i)
    port = bind_all(wanted, handle, request);
  if (port) return port;
  const std::lock_guard guard(mutex_);
  bound_.erase(handle);
  return port;
}

/// In all of the tables, or in none.
Result<uint16_t> Ports::bind_all(const std::vector<Table>& tables, uint64_t handle,
                                 const host::PortRequest& request) {
  host::PortRequest with_port = request;
  for (size_t i = 0; i < tables.size(); ++i) {
    Result<uint16_t> port = bind_in(tables[i], handle, with_port);
    if (!port) {
      while (i-- > 0) release_in(tables[i], handle);
      return port;
    }
    with_port.port = *port;
  }
  return with_port.port;
}

/// When a later table refuses, the earlier ones keep the port from being shared all the same, until it is
/// released.
Status Ports::claim(uint64_t handle) {
  const std::vector<Table> its = tables_of(handle);
  if (its.empty()) return Error{EINVAL, "not bound"};
  for (const Table table : its) {
    if (Status claimed = claim_in(table, handle); !claimed) return claimed;
  }
  return {};
}

void Ports::release(uint64_t handle) {
  for (const Table table : tables_of(handle)) release_in(table, handle);
  const std::lock_guard guard(mutex_);
  bound_.erase(handle);
}

Result<uint16_t> Ports::bind_in(Table table, uint64_t handle, const host::PortRequest& request) {
  if (table != nullptr) return table->bind(handle, request);
  const std::lock_guard guard(mutex_);
  return own_.bind(request, {.id = handle});
}

Status Ports::claim_in(Table table, uint64_t handle) {
  if (table != nullptr) return table->listen(handle);
  const std::lock_guard guard(mutex_);
  return own_.claim({.id = handle});
}

void Ports::release_in(Table table, uint64_t handle) {
  if (table != nullptr) return table->release(handle);
  const std::lock_guard guard(mutex_);
  own_.release({.id = handle});
}

}  // namespace uroce::rdmacm
