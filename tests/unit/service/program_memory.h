#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <utility>

#include "host/channel.h"
#include "host/own_memory.h"
#include "host/shared_memory.h"
#include "tests/unit/service/frames.h"

namespace uroce::testing {

/// The program's end of its channel to the service.
class ProgramMemory {
 public:
  ProgramMemory();

  [[nodiscard]] int descriptor() const { return memory_.descriptor.get(); }
  [[nodiscard]] host::OwnMemory& own() { return own_; }
  /// Where a hostile program writes.
  [[nodiscard]] std::span<std::byte> bytes();

  /// `descriptor` is the service's memory for this program.
  void connect(int descriptor);

  void send(std::span<const std::byte> frame, bool has_icrc = true);
  struct Received {
    Bytes bytes;
    bool has_icrc;
    BlockCode sender;
  };
  /// The next frame, if there is one.
  std::optional<Received> receive();
  host::Channel& channel() { return *channel_; }

 private:
  host::SealedMemory memory_;
  host::OwnMemory own_;
  host::Mapping far_;
  std::optional<host::Channel> channel_;
};

}  // namespace uroce::testing
