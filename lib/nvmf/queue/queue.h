#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/values/time.h"
#include "nvmf/queue/queue_options.h"
#include "nvmf/queue/request.h"

namespace uroce::nvmf {

class Target;
struct QueueState;

// The life of a request, and of a queue
//
// A transport makes one Queue for each of its connections (Queue) and keeps as many Request
// slots as the queue has entries. A queue is born without a controller: the only command it takes is Fabrics
// Connect, which makes it the admin queue of a new controller or an I/O queue of an existing one. Then:
//
// - A capsule arrives. The transport copies the 64 bytes into a free slot and calls receive(), in the order
//   of arrival (fused pairs are found by it). The queue checks all that can be known without the data, and
//   answers in the slot: a direction with a length, or `ended`.
// - Not `ended`: the transport checks the SGL against direction and length, and waits for buffers as long as
//   it must. A descriptor that is wrong, or data that could not be moved: fail(). Data from the host is
//   brought to the buffers first. Then execute(). Requests may be executed in any order.
// - poll() does what is to be done and hands back requests that have ended, each exactly once: those which
//   receive() has ended too. Their completion is filled in, with the SQ head in the order of handing back,
//   so completions are sent in that order.
// - If sends_data(), the transport moves `data` to the host and then sends the completion. With `in_place`
//   the bytes lie in the memory of a namespace's device: they are sent from there.
// - When nothing of the slot is needed any more (the data and the completion are sent) the transport calls
//   release(), and the slot is free again. Until then the namespace stays where it is.
//
// An Asynchronous Event Request may rest in the queue for days, and the first half of a fused pair rests
// until the second is there.
//
// The end. ending() turns true when the controller wants the connection to end: Disconnect, keep alive
// expired, reset or shutdown (for I/O queues), the subsystem or the host's permission went away. What has
// ended is sent, then the transport disconnects. Whichever side begins, the transport calls disconnected()
// once, and goes on with poll() and release() until drained(): requests in the hands of the queue come back
// (block requests end first; what had not begun is aborted), those in the hands of the transport are given to
// fail() or execute() as before or simply to release(). Their completions are not for sending. Then the queue
// may be destroyed.
//
// Time is an argument: any monotonic clock, the same for all queues of a target.

/// An admin or I/O queue, after Connect; see the text above. Belongs to one thread, which makes all calls,
/// construction and destruction among them, and turns it by poll() again and again. Ends before its Target.
class Queue {
 public:
  Queue(Target& target, QueueOptions options);
  ~Queue();
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  void receive(Request& request, Instant now);
  void execute(Request& request, Instant now);
  /// Instead of execute(): the transport found something wrong.
  void fail(Request& request, CommandStatus status);
  /// Fills a prefix of `ended`; how many.
  size_t poll(Instant now, std::span<Request*> ended);
  /// Frees the slot of a request that was handed back; after disconnected(), also of one that the transport
  /// had in its hands.
  void release(Request& request);

  [[nodiscard]] bool ending() const;
  void disconnected(Instant now);
  /// No request is between receive() and release(), and no block request is under way.
  [[nodiscard]] bool drained() const;

  /// Since the last call; nullopt: there was none.
  [[nodiscard]] std::optional<ConnectOutcome> take_connect_outcome();
  /// The queue is one of a controller, possibly of the discovery subsystem.
  [[nodiscard]] bool is_connected() const;
  [[nodiscard]] bool is_discovery() const;

  // For people and statistics; nullopt before Connect.
  [[nodiscard]] std::optional<uint16_t> qid() const;
  [[nodiscard]] std::optional<uint16_t> controller_id() const;

 private:
  std::unique_ptr<QueueState> state_;
};

}  // namespace uroce::nvmf
