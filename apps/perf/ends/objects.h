#pragma once

#include <cstdint>

#include "client/verbs_device.h"
#include "client/verbs_objects.h"

// What an end makes on its device, of one queue pair or of many. Each throws Failure, which names the device.
namespace uroce::perf {

/// What a peer may do with an end's memory and queue pairs.
int access_for(const client::VerbsDevice& device);

/// Throws Failure unless the queues of the device hold so many requests.
void expect_room(const client::VerbsDevice& device, uint32_t depth);

client::ProtectionDomain domain_on(const client::VerbsDevice& device);
client::CompletionQueue completions_on(const client::VerbsDevice& device, uint32_t entries);

/// Zeros, from the beginning of a page on.
client::Buffer zeroed(uint64_t bytes);
client::MemoryRegion region_on(const client::VerbsDevice& device, ibv_pd* domain,
                               const client::Buffer& buffer, uint64_t bytes);

}  // namespace uroce::perf
