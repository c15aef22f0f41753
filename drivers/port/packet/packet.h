#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "base/values/identifiers.h"
#include "base/values/result.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// "packetN,iface=NAME[,gso=auto|on|off]": packet sockets on an interface of the kernel, without EAL.
bool is_packet(std::string_view devargs);
/// Why gso=auto sends no GSO frames on an interface of the kernel; empty if it does.
std::string why_no_gso(const std::string& interface);
std::optional<MacAddress> packet_known_mac(std::string_view devargs);

/// Opens a port by devargs of is_packet(), or by those of port::packet_port_on() beside the kernel. Errors
/// begin with the port's name: EINVAL, ENODEV (no interface), EPERM, EBUSY (its addresses are another's),
/// EMSGSIZE (MTU), ENOTSUP (queues), ENOMEM.
Result<std::unique_ptr<port::Port>> open_packet(const port::Specification& specification);

}  // namespace uroce::drivers
