#pragma once

#include <string>

#include "port_pair.h"

namespace uroce::testing {

/// Opens both and waits until their links are up. Null pointers when that failed, which has then been
/// reported.
PortPair open_pair(const std::string& near, const std::string& far);

/// True once the link is up and its other end is not known to be missing; gives up after a minute.
bool wait_for_link(const port::Port& port);

}  // namespace uroce::testing
