#pragma once

#include "apps/perf/plan/plan.h"
#include "client/channel.h"

namespace uroce::perf {

/// A client that has said what it wants.
struct Client {
  client::Channel channel;
  Plan plan;
};

/// Waits for the first peer that comes with a plan. One that does not (a port scanner, a browser, a peer that
/// says nothing for some seconds) is let go with a line on standard error, and keeps no other waiting.
Client await_client(client::Listener& listener);

}  // namespace uroce::perf
