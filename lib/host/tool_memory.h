#pragma once

#include <array>
#include <atomic>
#include <cstdint>

// Memories of a process that tools find below /proc by their names (process_memory.h): how each of them
// begins, and how a tool asks for what is not there already. The formats: statistics_format.h,
// orders_format.h, nvmf_format.h.
namespace uroce::host {

/// The beginning of each such memory.
struct ToolMemory {
  uint64_t magic;  // which format
  uint32_t version;
  uint32_t unused;
  uint64_t bytes;          // of all of the memory
  uint64_t started_ticks;  // when the process was: field 22 of /proc/PID/stat
  std::array<char, 64> program;
};

/// What a memory of this process begins with.
ToolMemory tool_memory(uint64_t magic, uint32_t version, uint64_t bytes);

/// False: it is that of a process which `pid` was forked from, and has the descriptor of, too.
bool belongs_to(const ToolMemory& memory, int pid);

/// A tool that holds the lock of the memory writes what it asks for, changes `asked`, and wakes the process
/// at `bell`; when `answered` is the same, the answer is there. The tool lets go of the lock when it has read
/// the answer.
struct Question {
  std::atomic<uint32_t> open;  // 1 as long as the process answers
  std::atomic<uint32_t> bell;  // 1 while the process sleeps, a futex
  std::atomic<uint32_t> asked;
  std::atomic<uint32_t> answered;  // a futex

  // The process's.
  void begin() { open.store(1, std::memory_order_release); }  // pairs with is_open(): all before it is there
  /// A tool that sees it closed asks nothing more.
  void end() { open.store(0, std::memory_order_release); }  // pairs with is_open()
  [[nodiscard]] bool is_pending() const {
    // seq_cst: partner is the tool, which asks before it looks at the bell.
    return asked.load(std::memory_order_seq_cst) != answered.load(std::memory_order_relaxed);
  }
  /// The number to answer() by. What the tool asks for is there.
  [[nodiscard]] uint32_t take() const {
    return asked.load(std::memory_order_acquire);
  }                                                                                    // pairs with the tool
  void answer(uint32_t number) { answered.store(number, std::memory_order_release); }  // pairs with the tool

  // The tool's.
  [[nodiscard]] bool is_open() const {
    return open.load(std::memory_order_acquire) != 0;  // pairs with begin() and end()
  }
};

}  // namespace uroce::host
