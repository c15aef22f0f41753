#pragma once

#include "cm/connection.h"

namespace uroce::cm {

enum class EventKind : uint8_t {
  kRequest,         // REQ for a listener: reply() or reject()
  kReply,           // REP: ready_to_use() or reject()
  kEstablished,     // RTU, or established()
  kRejected,        // REJ, with its reason
  kUnanswered,      // REQ, REP or SIDR_REQ was sent as often as allowed
  kDisconnected,    // the peer disconnected, confirmed our disconnect, or does not answer
  kTimewaitEnded,   // the queue pair's number may be used again
  kServiceRequest,  // SIDR_REQ for a listener: answer_service()
  kServiceReply,    // SIDR_REP, with its status
};

struct Event {
  EventKind kind;
  CommId id;
  uint64_t consumer = 0;  // of the connection; of the listener with kRequest and kServiceRequest
  Address address;
  /// What the peer sent, null without; lives as long as the call.
  const wire::CmMad* mad = nullptr;
};

/// Is told from within receive() and pump(), and may call the agent back.
class Consumer {
 public:
  virtual void on_event(const Event& event) = 0;

 protected:
  ~Consumer() = default;
};

enum class Sent : uint8_t {
  kYes,     // or there is no host: as good as lost on the way
  kLater,   // the peer's link address is being asked for
  kNoRoom,  // for any message, now
};

/// Takes a datagram of the communication manager to QP 1 of a peer.
class MadSink {
 public:
  virtual Sent send(const Address& address, const wire::CmMad& mad) = 0;

 protected:
  ~MadSink() = default;
};

}  // namespace uroce::cm
