#pragma once

#include "qp/connection/connection.h"
#include "qp/connection/send_window.h"

namespace uroce::qp {

/// What all parts of a queue pair share that send. Each of them knows it by one reference.
struct Sending {
  explicit Sending(const QueuePairOptions& options) : connection(options), window(*options.send_queue) {}

  Connection connection;
  SendWindow window;
};

}  // namespace uroce::qp
