#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "base/counters/fault_counts.h"
#include "host/tool_memory.h"

// What `uroce fault` and `uroce dump` order of a process with a port of its own: memory that the tool finds
// below /proc, as readers of statistics find theirs (statistics_format.h), and writes an order to. So a tool
// that may look into a process may order faults of it, in any network namespace, and nothing is left of it
// when the process has ended.
//
// An order is a question (tool_memory.h) under the lock kOrderLock (F_OFD_SETLK of that byte). A capture
// lasts for as long as the tool holds kCaptureLock, or until it orders kStop.
namespace uroce::host {

inline constexpr char kOrdersName[] = "uroce-orders";            // of the memfd
inline constexpr uint64_t kOrdersMagic = 0x524F'6563'6F72'7502;  // "\2uroceOR"
inline constexpr uint32_t kOrdersVersion = 1;
inline constexpr uint32_t kOrderedFaultsMax = 16;
inline constexpr uint32_t kCapturesMax = 16;

// Bytes of the memory whose locks have a meaning.
inline constexpr int64_t kOrderLock = 0;
inline constexpr int64_t kCaptureLock = 1;

enum class OrderKind : uint32_t {
  kOrder = 1,  // `text`, as that of MessageType::kFaultAdd (control.h). Answer: `number`, of a fault or of
               // what was broken; or `captures`
  kRemove,     // `number`, of a fault; 0: all
  kList,       // answer: `faults`
  kStop,       // the capture
};

enum class FaultState : uint32_t { kWaiting, kActive, kOver };

struct FaultShown {
  uint32_t id;
  FaultState state;
  std::array<char, 512> rule;
  std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)> counts;
};

/// The name of the memfd of a capture.
inline constexpr char kCaptureName[] = "uroce-capture";

/// A device whose frames are captured: the descriptor of the process, below /proc, that they come by
/// (capture/ring.h). A reader opens it only if it is a memfd of the name kCaptureName.
struct CaptureShown {
  std::array<char, 64> device;
  int32_t descriptor;
  uint32_t unused;
};

struct OrdersMemory {
  ToolMemory head;
  Question question;

  // Tools write these.
  OrderKind kind;
  uint32_t number;
  std::array<char, 512> text;

  // The process answers.
  int32_t error;  // 0 or an errno; then what is wrong:
  std::array<char, 512> complaint;
  uint32_t number_answered;
  uint32_t faults_shown;
  uint32_t captures_shown;
  std::array<FaultShown, kOrderedFaultsMax> faults;
  std::array<CaptureShown, kCapturesMax> captures;
};

}  // namespace uroce::host
