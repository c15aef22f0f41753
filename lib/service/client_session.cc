#include "service/client_session.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstring>
#include <utility>

namespace uroce::service {

const char* label_of(Drop reason) {
  static constexpr std::array<const char*, static_cast<size_t>(Drop::kCount)> kLabels = {
      "full",       "too_long",       "not_roce",      "malformed",
      "source_mac", "source_address", "source_number", "management"};
  return kLabels[static_cast<size_t>(reason)];
}

ClientSession::ClientSession(uint32_t program, NumberBlock block, host::Mapping to_program,
                             host::Mapping from_program)
    : program_(program),
      block_(block),
      to_program_(std::move(to_program)),
      from_program_(std::move(from_program)),
      memory_(to_program_.data(), host::kServiceMemory),
      channel_(memory_, 0,
               {.memory = from_program_.data(),
                .shape = host::kProgramMemory,
                .channel = 0,
                .bell = &host::MemoryLayout(host::kProgramMemory)
                             .bell(static_cast<const std::byte*>(from_program_.data()))}) {}

void ClientSession::grant(uid_t user) {
  constexpr host::MemoryLayout layout(host::kServiceMemory);
  host::Grant& grant = layout.grant(to_program_.data());
  grant.first = block_.first;
  grant.count = block_.count;
  grant.user = user;
  // Relaxed, here and below: the program gets the memory by a message.
  grant.valid.store(1, std::memory_order_relaxed);
}

void ClientSession::revoke() {
  host::MemoryLayout(host::kServiceMemory)
      .grant(to_program_.data())
      .valid.store(0, std::memory_order_relaxed);
}

const host::Usage& ClientSession::usage() const {
  return host::MemoryLayout(host::kProgramMemory).usage(static_cast<const std::byte*>(from_program_.data()));
}

// Relaxed: they are nothing but numbers.

uint32_t ClientSession::queue_pairs() const {
  return std::min(usage().queue_pairs.load(std::memory_order_relaxed), block_.count);
}

uint64_t ClientSession::port_dropped() const { return usage().port_dropped.load(std::memory_order_relaxed); }

std::vector<host::OpenConnection> ClientSession::connections() const {
  const auto used =
      std::min(usage().connections.load(std::memory_order_relaxed), host::kProgramMemory.connections);
  return host::read_connections({host::MemoryLayout(host::kProgramMemory)
                                     .connections(static_cast<const std::byte*>(from_program_.data())),
                                 used},
                                block_);
}

std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)> ClientSession::fault_counts(
    uint32_t fault) const {
  std::array<uint64_t, static_cast<size_t>(FaultCount::kCount)> read{};
  const FaultCounts* const all = host::MemoryLayout(host::kProgramMemory)
                                     .fault_counts(static_cast<const std::byte*>(from_program_.data()));
  for (const FaultCounts& counts : std::span(all, host::kFaultsMax)) {
    // Acquire: pairs with the program's store of the number.
    if (counts.id.load(std::memory_order_acquire) != fault) continue;
    for (size_t i = 0; i < read.size(); ++i) read[i] = counts.read(static_cast<FaultCount>(i));
    break;
  }
  return read;
}

void ClientSession::send(std::span<const std::byte> frame, bool has_icrc, BlockCode sender, uint64_t turn) {
  if (frame.size() > host::kFrameBytes || frame.size() < host::kFrameBytesMin) return drop(Drop::kTooLong);
  if (channel_.broken() || !channel_.has_room()) return drop(Drop::kFull);
  const uint32_t index = memory_.take();
  if (index == host::OwnMemory::kNoFrame) return drop(Drop::kFull);
  std::memcpy(memory_.frame(index), frame.data(), frame.size());
  channel_.send(index, static_cast<uint32_t>(frame.size()), has_icrc, sender);
  ++counters_.frames_to;
  counters_.bytes_to += frame.size();
  if (woken_in_ == turn || !channel_.far_end_sleeps()) return;
  woken_in_ = turn;
  wake();
}

/// The program's thread may be one of several that sleep at the bell. The mapping is read-only, which waking
/// does not mind.
void ClientSession::wake() const {
  syscall(SYS_futex, &channel_.far_bell().word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace uroce::service
