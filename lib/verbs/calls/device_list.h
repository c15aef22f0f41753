#pragma once

#include <memory>
#include <vector>

#include "base/values/result.h"
#include "verbs/calls/objects.h"

namespace uroce::verbs {

/// The devices of the configuration, made on first use; nothing is started. The error of the configuration
/// stays.
Result<const std::vector<std::unique_ptr<VerbsDevice>>*> configured_devices();

/// One of them? A program may have other libraries' devices as well.
bool ours(const ibv_device& device);

}  // namespace uroce::verbs
