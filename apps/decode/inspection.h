#pragma once

#include <vector>

#include "apps/decode/capture_file.h"
#include "apps/decode/inspected.h"

namespace uroce::decode {

enum class Lines : uint8_t { kNo, kYes };

/// What can be said of each frame without those before it: headers, ICRC, fields that are wrong by
/// themselves. Any thread. `inspected` gets one for each record, or one for each packet of an aggregate; its
/// former contents are reused.
void inspect(const Frames& frames, Lines lines, std::vector<Inspected>& inspected);

}  // namespace uroce::decode
