#pragma once

#include "base/values/identifiers.h"
#include "mem/rights/region.h"
#include "qp/attributes/attributes.h"
#include "qp/attributes/event.h"
#include "qp/connection/transport_options.h"
#include "queue/completion_queue.h"
#include "queue/shared_receive_queue.h"
#include "queue/work_queue.h"

namespace uroce::qp {

/// What a queue pair is made with. Nothing is owned: all that is pointed to outlives it.
struct QueuePairOptions {
  const TransportOptions* transport = &kDefaultTransport;  // of its device
  Type type = Type::kRc;
  QpNumber number;
  mem::QpIdentity identity;  // that windows are bound to
  DomainId domain;
  bool signal_all = false;
  bool reserved_lkey = false;              // may use it
  uint32_t datagram_mtu = 4096;            // of the port: the longest message of UD
  queue::SendQueue* send_queue = nullptr;  // of UD: with a DatagramAddress attached
  queue::ReceiveQueue* receive_queue = nullptr;
  queue::SharedReceiveQueue* shared_receives = nullptr;  // takes the place of the one above, if given
  queue::CompletionQueue* send_completions = nullptr;
  queue::CompletionQueue* receive_completions = nullptr;
  EventListener* listener = nullptr;
  queue::XrcDomainId xrc_domain;  // XRC target, which gets domain and receive_completions with each message
};

}  // namespace uroce::qp
