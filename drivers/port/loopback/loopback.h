#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "base/values/result.h"
#include "port/port.h"
#include "port/specification.h"

namespace uroce::drivers {

/// "loopbackN" or "loopbackN,steer=hash|round_robin". Numbers 2k and 2k+1 are the two ends of one wire inside
/// the process, without EAL. Whole frames pass, by reference, in order per pair of queues. `steer` says how
/// received frames are spread over this end's queues: by the UDP source port, as RSS would, or in turn,
/// whatever they hold. A full receive ring holds the sender back (transmit() takes fewer); what is sent while
/// the far end is closed is lost. The link is up as long as the port is open.
bool is_loopback(std::string_view devargs);

/// The wire's name, the same for both ends; empty when the devargs name no end.
std::string loopback_wire(std::string_view devargs);

Result<std::unique_ptr<port::Port>> open_loopback(const port::Specification& specification);

}  // namespace uroce::drivers
