#include "perf/nvmf/exported.h"

#include "client/failure.h"
#include "drivers/block_registry.h"
#include "engine/platform/clock.h"

namespace uroce::perf {
namespace {

nvmf::RdmaOptions transport_options(bool own_threads) {
  nvmf::RdmaOptions options;
  options.clock = engine::MachineClocks::system;
  options.io_entries_max = kIoEntriesMax;
  options.own_threads = own_threads;
  return options;
}

}  // namespace

Exported::Exported(const drivers::BlockSpecification& device, const IoPlace& place, bool own_threads)
    : target_({.firmware = "perf"}) {
  auto opened = nvmf::RdmaTransport::open(target_, transport_options(own_threads));
  if (!opened) throw client::Failure(opened.error().message);
  transport_ = std::move(*opened);
  auto block_device = drivers::open_block_device(device);
  if (!block_device) throw client::Failure(block_device.error().message);
  Status status = target_.add_subsystem({.nqn = kExportedNqn, .serial = "1", .allow_any_host = true});
  if (status) {
    auto registered = with_registered_memory(transport_->regions(), std::move(*block_device));
    status = target_.add_namespace(kExportedNqn, {.nsid = kExportedNsid, .device = std::move(registered)});
  }
  if (status) status = transport_->listen(place.target_address, place.port);
  if (!status) throw client::Failure(status.error().message);
}

drivers::BlockSpecification device_of(const std::string& driver, const std::string& path, uint64_t bytes) {
  if (driver == "file") return {.driver = driver, .path = path};
  return {.driver = driver, .size_bytes = bytes, .block_bytes = kExportedBlockBytes};
}

}  // namespace uroce::perf
