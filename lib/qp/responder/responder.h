#pragma once

#include <cstdint>

#include "base/values/sequence_number.h"
#include "copy/placer.h"
#include "qp/attributes/traffic.h"
#include "qp/connection/connection.h"
#include "qp/connection/turn.h"
#include "qp/responder/request_context.h"
#include "wire/packet.h"

namespace uroce::qp {

/// What a queue pair does with the peer's requests: one kind for each service.
class Responder {
 public:
  virtual ~Responder() = default;

  /// Nothing received yet; the first request packet will be `expected`.
  virtual void reset(Psn expected) = 0;

  /// A request packet that the queue pair may look at.
  virtual void receive(const wire::Packet& packet, Turn& turn) = 0;

  /// A request that is due is answered as if its checks had ended so; false: it was not, for it is not due,
  /// or the service does not answer so.
  virtual bool refuse_due(const wire::Packet&, RequestStatus, Turn&) { return false; }

  /// See QueuePair.
  [[nodiscard]] virtual Psn expected() const { return Psn(); }
  virtual void drop_out_of_order(Psn, Turn&) {}

  // Services that answer.
  /// Keeps the outcome of so many requests that are answered by themselves. False: there is no memory.
  [[nodiscard]] virtual bool provide(uint32_t) { return true; }
  /// There is something to say: pump() is due.
  [[nodiscard]] virtual bool owes() const { return false; }
  virtual Pumped pump(Turn&, uint32_t) { return {}; }
  /// Forgets what it owes the peer.
  virtual void drop_answers() {}

  /// The invalidation that a message waited for is over.
  virtual void invalidated(Turn&) {}

  /// Moments are on a clock that shows `by` more from now on.
  virtual void shift(Duration) {}

  /// A part of a message, which may have been performed, could not be placed: it and what came behind it are
  /// taken back.
  virtual void lost(const copy::MessageMark& mark, Turn& turn) = 0;

  /// SENDs and WRITEs of the peer that were performed to their end.
  [[nodiscard]] const Traffic& received() const { return received_; }

 protected:
  Responder() = default;
  Responder(const Responder&) = default;
  Responder& operator=(const Responder&) = default;

  Traffic received_;
};

}  // namespace uroce::qp
