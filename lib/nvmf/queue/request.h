#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "base/values/time.h"
#include "nvmf/format/nvme.h"
#include "nvmf/format/status.h"

namespace uroce::nvmf {

struct CommandRow;
struct NamespaceWay;

/// Where a command's data goes.
enum class Direction : uint8_t { kNone, kFromHost, kToHost };

/// One command on its way through a queue: a slot that a transport owns and uses again and again. See queue.h
/// for its life. Fields belong to the side that is named; neither side touches them while the other has the
/// request.
struct Request {
  // The transport's, before Queue::receive().
  Command command{};     // the 64 bytes of the capsule
  void* user = nullptr;  // never looked at

  // The queue's answer to Queue::receive().
  bool ended =
      false;  // there is a completion already: no data is to be moved, and execute() must not be called
  Direction direction = Direction::kNone;
  uint32_t data_bytes = 0;  // exactly what is moved when the command is successful; 0 if kNone
  bool in_place = false;    // kToHost: the queue will say where the bytes lie: no buffers are needed

  /// The bytes, `data_bytes` in all. Set by the transport before Queue::execute() unless `in_place`: then the
  /// queue has set it when the request has ended. The transport's pieces begin at multiples of 4096 and are
  /// of 4096 bytes or multiples, but for the last. Array and memory stay until the request is released.
  std::span<const iovec> data{};

  // The queue's, when the request has ended.
  Completion completion{};

  [[nodiscard]] bool successful() const { return (completion.status & ~1u) == 0; }
  /// Bytes go to the host before, or with, this completion.
  [[nodiscard]] bool sends_data() const { return direction == Direction::kToHost && successful(); }

  /// Belongs to the queue all the time between receive() and release().
  struct Progress {
    enum class State : uint8_t { kFree, kReceived, kExecuting, kEnded, kHandedBack };
    State state = State::kFree;
    bool waiting = false;    // to be run again
    bool exclusive = false;  // half of a fused pair that has the namespace for itself
    uint16_t steps = 0;      // block requests that are under way
    uint32_t next_part = 0;  // range of Dataset Management, block of Compare and Verify, namespace of Flush
    const CommandRow* row = nullptr;
    NamespaceWay* way = nullptr;  // counted there as in use
    uint64_t block = 0;           // logical block address and number of blocks of an I/O command
    uint32_t blocks = 0;
    Instant received{};           // when the turn began that took it
    CommandStatus status{};       // what will come of it, if anything went wrong so far
    uint16_t parameter = 0xFFFF;  // of the error log: byte and bit of the wrong field
    Request* fused = nullptr;     // the other half
    Request* next = nullptr;      // in one of the queue's lists
    iovec piece{};                // in-place data, or memory of a step
  };
  Progress progress{};
};

}  // namespace uroce::nvmf
