#pragma once

#include <string>

namespace uroce::testing {

/// Moves the process into a network namespace of its own, which goes with it. To be called while there is one
/// thread. Why not, when it cannot, is what no_kernel_links() says from then on.
void enter_namespace();

/// Why this process cannot make interfaces; empty when it can.
const std::string& no_kernel_links();

/// Runs `ip` with these arguments; false when it failed, which it has then said.
bool ip(const std::string& arguments);

/// Two interfaces joined by a cable, without addresses, up; made anew.
bool make_veth(const std::string& near, const std::string& far, unsigned mtu);

}  // namespace uroce::testing
