#pragma once

#include <cstdint>
#include <optional>

#include "nvmf/format/log_page.h"
#include "nvmf/queue/request.h"

namespace uroce::nvmf {

struct QueueState;

/// Says everything about a command but how it is done. Adding a command is adding a row to command_table.cc.
struct CommandRow {
  uint8_t code = 0;  // opcode, or type of a Fabrics command
  const char* name = nullptr;
  Direction direction = Direction::kNone;
  uint32_t effects = kEffectSupported;             // for the log page: kEffect...
  bool fused_first = false, fused_second = false;  // may be that half of Compare and Write
  bool discovery = false;                          // discovery controllers have it, too
  enum class Counted : uint8_t { kNot, kRead, kWrite };
  Counted counted = Counted::kNot;  // in the SMART log

  /// Checks all that is known without the data, and sets `data_bytes` and what execution needs. May be null.
  CommandStatus (*check)(QueueState&, Request&) = nullptr;
  /// With the data there. The command's outcome; nullopt: the request rests, waits, or block requests of it
  /// are under way. After waiting it is called again.
  std::optional<CommandStatus> (*execute)(QueueState&, Request&) = nullptr;
  /// The block requests under way have ended well: what now, as execute(). Null: the command is successful.
  std::optional<CommandStatus> (*go_on)(QueueState&, Request&) = nullptr;

  [[nodiscard]] bool changes_blocks() const { return (effects & kEffectBlockContents) != 0; }
};

}  // namespace uroce::nvmf
