#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/process/descriptor.h"
#include "base/values/result.h"
#include "host/orders_format.h"
#include "host/shared_memory.h"

namespace uroce::serve {

/// Where a process with a port of its own takes orders (host/orders_format.h).
class ProcessOrders {
 public:
  /// Null: the process has no such place, or none that this one may see; it may be a program of the service.
  /// EPROTO: what it shows is of another version, or damaged.
  static Result<std::optional<ProcessOrders>> find(uint32_t pid);

  struct Capture {
    std::string device;
    Descriptor memory;
  };
  struct Answer {
    uint32_t number = 0;
    std::vector<host::FaultShown> faults;
    std::vector<Capture> captures;
  };
  /// One order and its answer; the error names the process. ETIMEDOUT: it does not answer.
  [[nodiscard]] Result<Answer> order(host::OrderKind kind, uint32_t number, std::string_view text) const;

  /// From now on until the end of this object the process may capture for it. EBUSY: it does for another.
  [[nodiscard]] Status begin_capture() const;
  /// Readable when the process has ended.
  [[nodiscard]] int process() const { return process_.get(); }
  /// The process still has a device of its own.
  [[nodiscard]] bool is_open() const;
  [[nodiscard]] std::string program() const;

 private:
  ProcessOrders(uint32_t pid, Descriptor descriptor, host::Mapping mapping, Descriptor process)
      : pid_(pid),
        descriptor_(std::move(descriptor)),
        mapping_(std::move(mapping)),
        process_(std::move(process)) {}
  [[nodiscard]] host::OrdersMemory& memory() const {
    return *reinterpret_cast<host::OrdersMemory*>(mapping_.data());
  }
  bool lock(int64_t byte, bool locked) const;
  [[nodiscard]] Status ask_for_it() const;
  [[nodiscard]] Result<Answer> read_answer() const;
  [[nodiscard]] Error failed(int code, std::string_view what) const;

  uint32_t pid_;
  Descriptor descriptor_;
  host::Mapping mapping_;
  Descriptor process_;
};

}  // namespace uroce::serve
