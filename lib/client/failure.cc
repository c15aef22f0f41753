#include "client/failure.h"

#include <cstring>

namespace uroce::client {
namespace {

volatile std::sig_atomic_t interruption = 0;

void note(int signal) { interruption = signal; }

}  // namespace

Failure failed(const std::string& what, int code) { return Failure(what + ": " + std::strerror(code)); }

void note_interruptions() {
  struct sigaction action {};
  action.sa_handler = note;
  // No SA_RESTART: a blocking accept or poll must end too.
  sigaction(SIGINT, &action, nullptr);
  sigaction(SIGTERM, &action, nullptr);
}

void throw_if_interrupted() {
  if (interruption != 0) throw Interrupted{interruption};
}

}  // namespace uroce::client
