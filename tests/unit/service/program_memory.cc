#include "tests/unit/service/program_memory.h"

#include <sys/mman.h>

#include <algorithm>

namespace uroce::testing {
namespace {

constexpr host::MemoryLayout kOwnLayout(host::kProgramMemory);
constexpr host::MemoryLayout kFarLayout(host::kServiceMemory);

}  // namespace

ProgramMemory::ProgramMemory()
    : memory_(std::move(*host::make_sealed_memory("test-program", kOwnLayout.bytes()))),
      own_(memory_.mapping.data(), host::kProgramMemory) {}

std::span<std::byte> ProgramMemory::bytes() { return {memory_.mapping.data(), kOwnLayout.bytes()}; }

void ProgramMemory::connect(int descriptor) {
  auto* const far =
      static_cast<std::byte*>(mmap(nullptr, kFarLayout.bytes(), PROT_READ, MAP_SHARED, descriptor, 0));
  far_ = host::Mapping(far, kFarLayout.bytes());
  channel_.emplace(own_, 0,
                   host::Channel::FarEnd{.memory = far,
                                         .shape = host::kServiceMemory,
                                         .channel = 0,
                                         .bell = &kFarLayout.bell(static_cast<const std::byte*>(far))});
}

void ProgramMemory::send(std::span<const std::byte> frame, bool has_icrc) {
  const uint32_t index = own_.take();
  std::ranges::copy(frame, own_.frame(index));
  channel_->send(index, static_cast<uint32_t>(frame.size()), has_icrc);
}

std::optional<ProgramMemory::Received> ProgramMemory::receive() {
  const host::Channel::Frame frame = channel_->receive();
  if (frame.data == nullptr) return std::nullopt;
  Received received{Bytes(frame.data, frame.data + frame.length), frame.has_icrc, frame.sender};
  channel_->release();
  return received;
}

}  // namespace uroce::testing
