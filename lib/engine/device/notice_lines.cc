// Decision: failures of queue pairs are logged from log.level = "info" on, and by default on a terminal only.
// Hardware is silent, programs provoke errors on purpose, and a redirected standard error is theirs. Cost: a
// futex call where lines are wanted and the thread uroce-stat sleeps.
#include "engine/device/notice_lines.h"

#include <fmt/format.h>

#include <array>
#include <string>
#include <vector>

#include "engine/platform/log.h"
#include "qp/attributes/state_name.h"
#include "wire/address_text.h"

namespace uroce::engine {

void write_notice(std::string_view device, const qp::Notice& notice) {
  const std::string peer = notice.address == Gid{} ? std::string() : wire::to_text(notice.address);
  const std::string_view reason = text_of(notice.failure);
  std::vector<LogField> fields{{"device", device}, {"queue_pair", uint64_t{notice.queue_pair.value}}};
  std::string line = fmt::format("{}: queue pair {:#x}: ", device, notice.queue_pair.value);
  if (notice.kind == qp::Notice::Kind::kState) {
    const std::string_view from = qp::state_name(static_cast<size_t>(notice.from));
    const std::string_view to = qp::state_name(static_cast<size_t>(notice.to));
    line += fmt::format("{} to {}{}", from, to, notice.key != MemoryKey{} ? "," : "");
    fields.push_back({"from", from});
    fields.push_back({"to", to});
  } else {
    line += "invalidated";
  }
  if (notice.key != MemoryKey{}) {
    line += fmt::format(" key {:#010x}", notice.key.value);
    fields.push_back({"key", uint64_t{notice.key.value}});
  }
  if (!reason.empty()) {
    line += fmt::format(": {}", reason);
    fields.push_back({"reason", reason});
  }
  if (notice.completion_queue != 0) {
    line += fmt::format(" (completion queue {})", notice.completion_queue);
    fields.push_back({"completion_queue", uint64_t{notice.completion_queue}});
  }
  if (!peer.empty()) {
    line += fmt::format(", peer {} queue pair {:#x}", peer, notice.peer.value);
    fields.push_back({"peer_address", peer});
    fields.push_back({"peer_queue_pair", uint64_t{notice.peer.value}});
  }
  const bool failed = notice.failure != qp::Failure::kNone;
  write_log(failed ? LogLevel::kInfo : LogLevel::kDebug, "uroce", line, fields);
}

void write_lost_notices(std::string_view device, uint64_t lost) {
  const std::array fields{LogField{"device", device}, LogField{"lost", lost}};
  write_log(LogLevel::kInfo, "uroce", fmt::format("{}: {} lines about queue pairs were lost", device, lost),
            fields);
}

}  // namespace uroce::engine
