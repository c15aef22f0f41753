#pragma once

#include "apps/perf/channel.h"
#include "apps/perf/plan.h"

namespace uroce::perf {

/// A client that has said what it wants.
struct Client {
  Channel channel;
  Plan plan;
};

/// Waits for the first peer that comes with a plan. One that does not (a port scanner, a browser, a peer that
/// says nothing for some seconds) is let go with a line on standard error, and keeps no other waiting.
Client await_client(Listener& listener);

}  // namespace uroce::perf
