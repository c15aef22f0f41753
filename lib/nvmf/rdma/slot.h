#pragma once

#include <infiniband/verbs.h>
#include <sys/uio.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/values/time.h"
#include "nvmf/queue/request.h"
#include "nvmf/rdma/data_place.h"

namespace uroce::nvmf {

class RdmaQueue;
struct RdmaBufferBudget;

/// A receive buffer: 64 bytes of command, and a page-aligned place for the data that may come with it, so
/// that it can be written to a device from there. Belongs to the receive queue, or to the queue that got it
/// with a completion.
struct RdmaCapsule {
  std::array<ibv_sge, 2> segments{};  // of command and data
  std::span<std::byte> data{};        // all its room
  uint32_t data_bytes = 0;            // that came
  RdmaCapsule* next = nullptr;

  [[nodiscard]] const std::byte* command() const {
    return reinterpret_cast<const std::byte*>(segments[0].addr);
  }
};

/// A place of a command's data on its way.
struct RdmaBuffer {
  std::byte* memory = nullptr;  // null: none is held
  bool large = false;
  RdmaBufferBudget* budget = nullptr;  // of which it is held
};

/// How far a command is. Each state but the first names what ends it.
enum class RdmaSlotState : uint8_t {
  kFree,
  kWaitsForBuffer,  // a buffer of its size is given back
  kWaitsForRead,    // the send queue has room, and the host answers one more READ
  kReading,         // the READ's completion
  kExecuting,       // nvmf::Queue::poll() hands it back
  kWaitsForSend,    // the send queue has room
  kSending,         // a completion of its SEND, or of a later work request
};

/// A command between its capsule and its completion. Belongs to a queue.
struct RdmaSlot {
  Request request;  // the first: nvmf::Queue hands it back
  RdmaQueue* queue = nullptr;
  RdmaSlotState state = RdmaSlotState::kFree;
  RdmaDataPlace place;
  RdmaCapsule* capsule = nullptr;  // held as long as its data is needed
  RdmaBuffer buffer;
  iovec piece{};               // that request.data shows
  Completion* sent = nullptr;  // in registered memory: what the SEND sends
  uint64_t position = 0;       // in the send queue, of its last work request
  Instant posted_at{};         // kReading, kSending
  RdmaSlot* next = nullptr;
};

/// In-capsule data that begins at a multiple of this is as well aligned as a buffer.
inline constexpr uint64_t kRdmaDataAlignment = 4096;

/// What a work request's wr_id says: whose it is, and what for; a failed completion has no opcode.
enum class RdmaWork : uint8_t { kReceive, kRead, kSend };
inline constexpr uint64_t kRdmaWorkMask = 3;

template <typename T>
uint64_t work_id(T& owner, RdmaWork work) {
  static_assert(alignof(T) > kRdmaWorkMask);
  return reinterpret_cast<uintptr_t>(&owner) | static_cast<uint64_t>(work);
}
inline RdmaWork work_of(uint64_t id) { return static_cast<RdmaWork>(id & kRdmaWorkMask); }
template <typename T>
T& owner_of(uint64_t id) {
  return *reinterpret_cast<T*>(id & ~kRdmaWorkMask);
}

}  // namespace uroce::nvmf
