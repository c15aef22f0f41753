#pragma once

#include <cstdint>

namespace uroce::qp {

/// What a queue pair tells its owner beside completions (ibv_get_async_event(3)).
enum class Event : uint8_t {
  kEstablished,       // the first packet came before the queue pair was ready to send
  kSendQueueDrained,  // in SQD, and nothing is under way any more
  kLastReceive,       // in the error state, and no receive work request of a shared queue is held any more
  kFatal,             // completions were lost
  kRequestError,      // the peer's request was refused as invalid
  kAccessError,       // the peer's request was refused for want of a right
};

/// Told by the poller in the middle of a turn: takes a note and passes it on when the turn's completions are
/// visible.
class EventListener {
 public:
  virtual void raised(Event event) = 0;

 protected:
  ~EventListener() = default;
};

}  // namespace uroce::qp
