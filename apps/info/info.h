#pragma once

#include "engine/configuration/configuration.h"

namespace uroce::info {

/// Prints the devices, their ports, GIDs and limits as the verbs library tells them, and what of the machine
/// is used; `verbose`: also the table of capabilities. Returns the exit status: 1 when a device does not
/// open.
int run(const engine::Configuration& configuration, bool verbose);

}  // namespace uroce::info
