#include "verbs/calls/refusal.h"

#include <fmt/format.h>

#include <cstring>

#include "engine/platform/log.h"
#include "verbs/calls/call_guard.h"
#include "verbs/calls/standard_streams.h"

namespace uroce::verbs {
namespace {

static_assert([] {
  for (size_t i = 0; i < kRefusals.size(); ++i)
    if (kRefusals[i].reason != static_cast<Reason>(i)) return false;
  return true;
}());

bool wanted() { return engine::failures_logged() && is_for_messages(); }

void write_line(int error, std::string_view text) {
  const char* const name = strerrorname_np(error);
  const engine::LogField field{"errno", static_cast<uint64_t>(error)};
  engine::write_log(engine::LogLevel::kInfo, "uroce",
                    fmt::format("{}: {}", name != nullptr ? name : "error", text), {&field, 1});
}

}  // namespace

int refused(Reason reason, uint64_t value, uint64_t limit) {
  const Refusal& refusal = kRefusals[static_cast<size_t>(reason)];
  if (wanted()) write_line(refusal.error, fmt::format(fmt::runtime(refusal.sentence), value, limit));
  return refusal.error;
}

decltype(nullptr) fail(std::string_view call, const Error& error) {
  if (wanted() && !error.message.empty()) write_line(error.code, fmt::format("{}: {}", call, error.message));
  return fail(error.code);
}

}  // namespace uroce::verbs
