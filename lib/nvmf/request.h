#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "nvmf/nvme.h"
#include "nvmf/status.h"

namespace uroce::nvmf {

struct NamespaceWay;

/// Where a command's data goes.
enum class Direction : uint8_t { kNone, kFromHost, kToHost };

/// One command on its way through a queue: a slot that a transport owns and uses again and again. See queue.h
/// for its life. Fields belong to whoever is named; neither side touches them while the other has the
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
  /// queue has set it when the request has ended. Array and memory stay until the request is released.
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
    uint8_t steps = 0;      // block requests that are under way or still to make
    bool excluded = false;  // has the namespace for itself (fused)
    uint16_t range = 0;     // Dataset Management: the next one
    const struct CommandRow* row = nullptr;
    NamespaceWay* way = nullptr;  // counted there as in use
    uint64_t block = 0;           // logical block address and number of blocks of an I/O command
    uint32_t blocks = 0;
    uint32_t done_blocks = 0;  // Compare and Verify go through the range piece by piece
    CommandStatus status{};
    uint16_t parameter = 0xFFFF;  // of the error log: byte and bit of the wrong field
    Request* fused = nullptr;     // the other half
    Request* next = nullptr;      // in one of the queue's lists
    iovec piece{};                // in-place data, or a step's memory
  };
  Progress progress{};
};

}  // namespace uroce::nvmf
