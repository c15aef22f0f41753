#pragma once

#include "mem/keys/remembered_key.h"
#include "mem/rights/access.h"

namespace uroce::qp {

/// The keys that the queue pairs of a poller used last, one for each use. Most queue pairs of a program use
/// the same few regions, so these are looked at by all of them, on lines that are always in the cache; a
/// queue pair has none of its own. Cost: queue pairs with keys of their own look them up each time.
struct UsedKeys {
  // Of our work requests: what is sent, ...
  mem::RememberedKey sources{mem::kLocalRead};
  // ... where answers go, ...
  mem::RememberedKey answered_into{mem::kLocalWrite};
  // ... and SENDs of the peer.
  mem::RememberedKey received_into{mem::kLocalWrite};
  // Of the peer's requests.
  mem::RememberedKey written{mem::kRemoteWrite};
  mem::RememberedKey read{mem::kRemoteRead};
};

}  // namespace uroce::qp
