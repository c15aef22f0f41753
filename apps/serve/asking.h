#pragma once

#include <string>

#include "base/values/result.h"
#include "host/control.h"

namespace uroce::serve {

inline constexpr int kAnswerMs = 5'000;

struct Answer {
  std::string text;  // of all of its parts
  uint32_t number = 0;
};

/// Asks the service at `socket`, the default one if that is empty, by one message. The error names the
/// socket.
Result<Answer> ask(const std::string& socket, host::Message message, int answer_ms);

/// One line on standard error; the exit status.
int fail(const char* command, const std::string& what);

}  // namespace uroce::serve
