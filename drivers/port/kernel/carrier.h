#pragma once

#include <string>
#include <string_view>

namespace uroce::drivers {

/// The kernel's interface that a port of these devargs goes through; empty: none. Without EAL.
std::string interface_of(std::string_view devargs);

}  // namespace uroce::drivers
