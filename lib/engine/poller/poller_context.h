#pragma once

#include "engine/poller/address_table.h"
#include "engine/poller/multicast_groups.h"
#include "engine/poller/queue_pair_table.h"
#include "mem/keys/region_table.h"

namespace uroce::engine {

/// What the pollers of one device share and only read. Outlives them.
struct PollerContext {
  mem::RegionTable& regions;
  const QueuePairTable& queue_pairs;
  const MulticastGroups& groups;
  const AddressTable& addresses;
};

}  // namespace uroce::engine
