#pragma once

#include <infiniband/verbs.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace uroce::info {

/// Where a capability is advertised, which is where its row is looked up.
enum class Place : uint8_t {
  kDevice,      // a number or a bit of ibv_device_attr_ex
  kPort,        // the same of ibv_port_attr
  kService,     // a type that ibv_create_qp makes
  kOperation,   // a value of send_ops_flags that ibv_create_qp_ex takes for a type
  kCompletion,  // a value of wc_flags that ibv_create_cq_ex takes
  kFunction,    // a function of <infiniband/urocedv.h> or of the verbs
  kBehaviour,   // what no flag says
};

/// One row of the table: what is advertised, and the test that exercises it.
struct Capability {
  Place place = Place::kBehaviour;
  const char* name;       // as the verbs name it
  const char* test;       // "TEST", "TEST: SUITE" or "TEST: SUITE.CASE"; TEST is meson's name
  bool absent = false;    // the row says that there is none of it
  size_t offset = 0;      // kDevice, kPort: of the field
  size_t bytes = 0;       // and its size
  uint64_t mask = 0;      // of a field, all ones for a number; the flag of kOperation and kCompletion
  ibv_qp_type type = {};  // kService, kOperation
};

/// The table. A row is one line.
std::span<const Capability> capabilities();

/// What a device says of itself.
struct Advertised {
  static constexpr size_t kTypes = 16;

  ibv_device_attr_ex device{};
  ibv_port_attr port{};
  uint32_t services = 0;                      // bit: type
  std::array<uint64_t, kTypes> operations{};  // of each type
  uint64_t completions = 0;
};

/// Asks the device, for the types by making a queue pair of each. Throws client::Failure when it is not
/// usable.
Advertised ask(ibv_context& context);

/// "yes", a number, or "none" for an absent one; empty when the device does not say what the row says.
std::string value_of(const Capability& capability, const Advertised& advertised);

}  // namespace uroce::info
