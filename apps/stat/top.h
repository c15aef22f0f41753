#pragma once

#include "apps/stat/reading.h"

namespace uroce::statistics {

/// Shows what is selected in the terminal until the user leaves. 0, or 1 after one line on standard error.
int watch_in_terminal(const Selection& selection);

}  // namespace uroce::statistics
