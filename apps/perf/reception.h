#pragma once

#include "apps/perf/channel.h"
#include "apps/perf/plan.h"

namespace uroce::perf {

/// A client that has said what it wants.
struct Client {
  Channel channel;
  Plan plan;
};

/// Waits for the first to come with a plan. Whoever does not (a port scanner, a browser, somebody who says
/// nothing for some seconds) is let go with a line on standard error, and keeps nobody else waiting.
Client await_client(Listener& listener);

}  // namespace uroce::perf
