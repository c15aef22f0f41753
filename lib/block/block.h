#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "base/values/result.h"

namespace uroce::block {

/// What a device is, derived from the real thing when it was opened.
struct Properties {
  std::string description;     // one line for people: driver and what is behind it
  uint32_t block_bytes = 512;  // 512 or 4096
  uint64_t blocks = 0;
  bool volatile_cache =
      false;               // what was written needs kFlush, or force_unit_access, to outlive a loss of power
  bool read_only = false;  // kRead and kFlush only
  uint32_t memory_alignment = 1;  // of the address of every piece of a request's memory
};

enum class Operation : uint8_t {
  kRead,
  kWrite,
  kFlush,        // all that has ended before is on stable storage
  kWriteZeroes,  // the blocks read as zeroes
  kDeallocate,   // the contents are not needed any more: they stay as they are or read as zeroes
};

enum class Outcome : uint8_t {
  kDone,
  kMediaError,  // the storage failed; of a write any part may have been made
  kNoSpace,     // nothing is left to write to (ENOSPC, EDQUOT); likewise
  kGone,        // what is behind the device was taken away
};

/// The caller has checked that the blocks lie inside the device, and that it is not read_only where that
/// matters.
struct Request {
  Operation operation = Operation::kRead;
  bool force_unit_access = false;  // kWrite, kWriteZeroes: on stable storage when it has ended
  uint64_t block = 0;              // the first
  uint32_t blocks = 0;             // at least 1; not for kFlush
  /// kRead, kWrite: `blocks` blocks in all, every piece whole blocks at an address of memory_alignment.
  /// Pieces and array stay the caller's and must stay what they are until the request has ended.
  std::span<const iovec> memory = {};
  void* user = nullptr;  // handed back with the outcome
};

struct Ended {
  void* user = nullptr;
  Outcome outcome = Outcome::kDone;
};

/// One thread's way to a device. No call blocks, allocates or locks; requests end in any order.
class Queue {
 public:
  virtual ~Queue() = default;
  /// False: as many requests are under way as the queue was opened for. It may begin at once, but need not
  /// before the next poll().
  virtual bool submit(const Request& request) = 0;
  /// Begins what was submitted, and fills a prefix of `ended` with requests that have ended; how many.
  virtual size_t poll(std::span<Ended> ended) = 0;
};

/// An opened device. Control path, one thread at a time.
class Device {
 public:
  virtual ~Device() = default;
  [[nodiscard]] virtual const Properties& properties() const = 0;
  /// All bytes of the device, where they simply lie in memory: it may be read there instead of by requests.
  /// Empty otherwise. Stays where it is as long as the device lives.
  [[nodiscard]] virtual std::span<std::byte> memory() { return {}; }
  /// `depth`: requests under way at once. `buffers`: where most of their memory will lie (a driver may tell
  /// the kernel beforehand); they outlive the queue. The queue belongs to the caller, ends before the
  /// device, and has nothing under way when it is destroyed, or waits for it.
  virtual Result<std::unique_ptr<Queue>> open_queue(uint32_t depth,
                                                    std::span<const std::span<std::byte>> buffers) = 0;
};

}  // namespace uroce::block
