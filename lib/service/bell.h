#pragma once

#include <memory>

#include "host/memory_format.h"
#include "host/shared_memory.h"
#include "port/port.h"

namespace uroce::service {

/// Where the thread that turns a device's pollers sleeps, so that programs can wake it: a page that programs
/// map to read.
class DeviceBell {
 public:
  static Result<std::shared_ptr<DeviceBell>> make();

  /// For programs.
  [[nodiscard]] const Descriptor& descriptor() const { return memory_.descriptor; }
  [[nodiscard]] std::atomic<uint32_t>& word() const {
    return reinterpret_cast<host::Bell*>(memory_.mapping.data())->word;
  }

 private:
  explicit DeviceBell(host::SealedMemory memory) : memory_(std::move(memory)) {}
  const host::SealedMemory memory_;
};

/// A port whose bell is that of a device of the service, and which is `inner` in everything else.
std::unique_ptr<port::Port> with_bell(std::unique_ptr<port::Port> inner, std::shared_ptr<DeviceBell> bell);

}  // namespace uroce::service
