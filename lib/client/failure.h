#pragma once

#include <csignal>
#include <stdexcept>
#include <string>

namespace uroce::client {

/// Ends the benchmark: one line that names what failed. Everything is released on the way out.
struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// "what: strerror(code)".
[[nodiscard]] Failure failed(const std::string& what, int code);

/// Ctrl-C or SIGTERM.
struct Interrupted {
  int signal = 0;
};

/// From now on SIGINT and SIGTERM only leave a note for throw_if_interrupted().
void note_interruptions();
void throw_if_interrupted();

}  // namespace uroce::client
