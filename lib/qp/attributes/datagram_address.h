#pragma once

#include <cstdint>

#include "base/values/identifiers.h"
#include "wire/frame.h"

namespace uroce::qp {

/// Where one message of UD goes. Attached to its work request as a whole, so that nothing needs to outlive
/// the call that posts it, and address handles need no reference count. Cost: room in each slot.
struct DatagramAddress {
  /// The bit of a Q_Key that says: take that of the sending queue pair.
  static constexpr uint32_t kOwnQkey = 1u << 31;

  wire::FrameTemplate frame;  // of no bytes: nowhere
  bool to_self = false;       // to an address of this port
  bool to_group = false;
  QpNumber destination;
  uint32_t qkey = 0;
};

/// `address` for a message of the queue pair `from`.
inline DatagramAddress address_to(const DatagramAddress& address, wire::SourcePorts source_ports,
                                  uint32_t flow_label, QpNumber from, QpNumber to, uint32_t qkey) {
  DatagramAddress complete = address;
  complete.frame.set_udp_source_port(wire::udp_source_port(source_ports, flow_label, from, to));
  complete.destination = to;
  complete.qkey = qkey;
  return complete;
}

}  // namespace uroce::qp
