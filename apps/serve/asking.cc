#include "apps/serve/asking.h"

#include <fmt/format.h>

#include <cerrno>

#include "base/values/printable.h"
#include "drivers/port/host/control_socket.h"
#include "drivers/port/host/socket_path.h"

namespace uroce::serve {

using host::MessageType;

Result<Answer> ask(const std::string& socket, host::Message message, int answer_ms) {
  const std::string path = socket.empty() ? drivers::service_socket_path() : socket;
  const auto failed = [&](const Error& error) {
    const bool none = error.code == ENOENT || error.code == ECONNREFUSED;
    return Error{error.code, fmt::format("{}: {}", path, none ? "no service listens there" : error.message)};
  };
  const auto connection = drivers::connect_to(path);
  if (!connection) return failed(connection.error());
  const drivers::ControlSocket control(connection->get());
  message.version = host::kControlVersion;
  if (Status status = control.send(message); !status) return failed(status.error());
  Answer all;
  const auto deadline = drivers::deadline_in(answer_ms);
  for (;;) {
    const auto received = control.wait(deadline);
    if (!received) return failed(received.error());
    const host::Message& answer = received->message;
    if (answer.type == MessageType::kText) all.text += host::text_of(answer.text);
    if (answer.type != MessageType::kDone) continue;
    if (answer.error != 0) return Error{answer.error, fmt::format("{}: {}", path, printable(answer.text))};
    all.number = answer.number;
    return all;
  }
}

int fail(const char* command, const std::string& what) {
  constexpr int kFailure = 1;
  fmt::print(stderr, "uroce {}: {}\n", command, printable(what));
  return kFailure;
}

}  // namespace uroce::serve
