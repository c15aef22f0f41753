#pragma once

#include <memory>
#include <string>

#include "drivers/block/specification.h"
#include "nvmf/rdma/transport.h"
#include "nvmf/subsystem/target.h"
#include "perf/nvmf/io_traffic.h"

namespace uroce::perf {

/// A target with one namespace, which listens. Throws Failure.
class Exported {
 public:
  /// `own_threads`: of its pollers; without them turn() is called all the time, also while this ends.
  Exported(const drivers::BlockSpecification& device, const IoPlace& place, bool own_threads);
  ~Exported() { stop(); }
  Exported(const Exported&) = delete;
  Exported& operator=(const Exported&) = delete;

  bool turn() { return transport_->turn(); }
  [[nodiscard]] bool has_hosts() const { return !transport_->report().empty(); }
  void stop() { transport_->stop(); }

 private:
  nvmf::Target target_;
  std::unique_ptr<nvmf::RdmaTransport> transport_;
};

/// "null", "ram", or "file" with a path: `bytes` of it.
drivers::BlockSpecification device_of(const std::string& driver, const std::string& path, uint64_t bytes);

}  // namespace uroce::perf
