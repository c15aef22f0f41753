#include "apps/dump/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/serve/asking.h"
#include "drivers/port/host/control_socket.h"
#include "drivers/port/host/socket_path.h"
#include "host/control.h"

namespace uroce::dump {
namespace {

using host::MessageType;

constexpr int kLookEveryMs = 1;
constexpr int64_t kFlushEveryNs = 200'000'000;

int64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

bool has_ended(int process) {
  pollfd source{.fd = process, .events = POLLIN, .revents = 0};
  return poll(&source, 1, 0) > 0;
}

}  // namespace

volatile int Session::stopped = 0;

/// The process that was named has a port of its own, or the service takes the order, or says why it does not.
Status Session::order() {
  const Result<bool> taken = order_of_process();
  if (!taken) return taken.error();
  return *taken ? Status() : order_of_service();
}

/// 0: no process in particular.
Result<uint32_t> Session::whom_to_ask() const {
  if (!options_.wire) return options_.order.scope.client.value_or(0);
  ucred service{};
  socklen_t bytes = sizeof service;
  if (getsockopt(connection_.get(), SOL_SOCKET, SO_PEERCRED, &service, &bytes) != 0)
    return Error{errno, fmt::format("{}: {}", path_, std::strerror(errno))};
  return static_cast<uint32_t>(service.pid);
}

/// False: it has none, or not the device that was named.
Result<bool> Session::order_of_process() {
  if (options_.wire)
    if (Status status = connect(); !status) return status.error();
  const auto pid = whom_to_ask();
  if (!pid) return pid.error();
  if (*pid == 0) return false;
  auto found = serve::ProcessOrders::find(*pid);
  if (!found) return found.error();
  if (!*found && options_.wire)
    return Error{EPERM,
                 fmt::format("{}: process {}, the service, is not yours, or has no device", path_, *pid)};
  if (!*found) return false;
  if (Status status = (*found)->begin_capture(); !status) return status.error();
  auto answer = (*found)->order(host::OrderKind::kOrder, 0, capture::to_text(options_.order));
  if (!answer && answer.error().code == ENODEV && !options_.wire) return false;
  if (!answer) return answer.error();
  process_.emplace(std::move(**found));
  of_process_ = std::move(answer->captures);
  pid_ = *pid;
  connection_ = Descriptor();
  return true;
}

Status Session::connect() {
  path_ = options_.socket.empty() ? drivers::service_socket_path() : options_.socket;
  auto connection = drivers::connect_to(path_);
  if (!connection) return named(connection.error());
  connection_ = std::move(*connection);
  return {};
}

Error Session::named(const Error& error) const {
  const bool none = error.code == ENOENT || error.code == ECONNREFUSED;
  return {error.code, fmt::format("{}: {}", path_, none ? "no service listens there" : error.message)};
}

Status Session::order_of_service() {
  if (Status status = connect(); !status) return status;
  const drivers::ControlSocket control(connection_.get());
  host::Message message{
      .type = MessageType::kFaultAdd, .version = host::kControlVersion, .count = options_.waits ? 1u : 0u};
  host::set_text(message.text, capture::to_text(options_.order));
  if (Status status = control.send(message); !status) return named(status.error());
  const auto deadline = drivers::deadline_in(serve::kAnswerMs);
  const auto answer = control.wait(deadline);
  if (!answer) return named(answer.error());
  if (answer->message.error != 0)
    return Error{answer->message.error, std::string(host::text_of(answer->message.text))};
  return {};
}

/// Where one program is meant, waits for its answer: it may have no such queue pair, and then nothing is
/// written.
Status Session::wait_for_capture() {
  const host::Scope& scope = options_.order.scope;
  if (process_ || options_.waits || (!scope.queue_pair && !scope.client)) return {};
  auto received = drivers::ControlSocket(connection_.get()).wait(drivers::deadline_in(serve::kAnswerMs));
  if (!received) return received.error();
  const host::Message& message = received->message;
  if (message.error != 0) return Error{message.error, std::string(host::text_of(message.text))};
  first_ = std::move(*received);
  return {};
}

Status Session::take_messages() {
  if (process_) ended_ = ended_ || !process_->is_open() || has_ended(process_->process());
  while (!ended_ && !process_) {
    auto received = drivers::ControlSocket(connection_.get()).receive();
    if (!received || (received->has_value() && (**received).message.type == MessageType::kDone)) {
      ended_ = true;
    } else if (!received->has_value()) {
      return {};
    } else if (Status status = on_captured(**received); !status) {
      return status;
    }
  }
  return {};
}

Status Session::on_captured(host::Datagram& datagram) {
  const host::Message& message = datagram.message;
  if (message.type != MessageType::kCaptured) return {};
  if (message.error != 0 || datagram.descriptors != 1) {
    fmt::print(stderr, "uroce dump: process {} does not capture: {}\n", message.id,
               host::text_of(message.text));
    return {};
  }
  return add_source(datagram.descriptor[0].get(), host::text_of(message.name), host::text_of(message.text),
                    message.id);
}

Status Session::add_source(int memory, std::string_view device, std::string_view program, uint64_t pid) {
  if (Status status = frames_.add(memory); !status) return status;
  file_->add_interface(fmt::format("{} {}", device, pid), fmt::format("{}, process {}", program, pid),
                       options_.order.snap_bytes);
  return {};
}

/// With the programs that capture by now.
Status Session::begin_file() {
  auto file = CaptureFile::create(options_.file);
  if (!file) return file.error();
  file_.emplace(std::move(*file));
  for (const auto& [device, memory] : of_process_)
    if (Status status = add_source(memory.get(), device, process_->program(), pid_); !status) return status;
  return first_ ? on_captured(*first_) : Status();
}

int Session::run() {
  for (const auto step : {&Session::order, &Session::wait_for_capture})
    if (Status status = (this->*step)(); !status) return serve::fail("dump", status.error().message);
  Status status = begin_file();
  if (!file_) return serve::fail("dump", status.error().message);
  int64_t flush_at = now_ns() + kFlushEveryNs;
  while (status && !is_over()) {
    pollfd source{.fd = process_ ? process_->process() : connection_.get(), .events = POLLIN, .revents = 0};
    poll(&source, 1, kLookEveryMs);
    status = take_messages();
    frames_.drain();
    const int64_t now = now_ns();
    if (status) status = pass_on(now, false);
    if (!status || now < flush_at || options_.last_ns) continue;
    status = file_->flush();
    flush_at = now + kFlushEveryNs;
  }
  // What the programs have captured up to now; the order ends with the connection, or here.
  if (process_) static_cast<void>(process_->order(host::OrderKind::kStop, 0, {}));
  frames_.drain();
  if (status) status = pass_on(now_ns(), true);
  if (status) status = write_kept();
  if (status) status = file_->finish(frames_, now_ns());
  return say_end(status);
}

bool Session::is_over() const {
  const bool enough = options_.count != 0 && file_->packets() >= options_.count;
  return stopped != 0 || ended_ || enough || (options_.last_ns && frames_.errors() != 0);
}

Status Session::pass_on(int64_t now, bool all) {
  while (options_.count == 0 || file_->packets() < options_.count) {
    auto frame = frames_.take(now, all);
    if (!frame) break;
    if (options_.last_ns) {
      keep(std::move(*frame), now);
    } else if (Status status = file_->add(*frame); !status) {
      return status;
    }
  }
  return {};
}

void Session::keep(CapturedFrame frame, int64_t now) {
  const auto bytes_of = [](const CapturedFrame& one) {
    return sizeof one + one.bytes.size() + one.comment.size();
  };
  kept_bytes_ += bytes_of(frame);
  kept_.push_back(std::move(frame));
  // What was before an error is what its last frame says, however late this process comes to it.
  const int64_t end = frames_.errors() == 0 ? now : kept_.back().record.time_ns;
  const auto too_old = [&] { return kept_.front().record.time_ns < end - *options_.last_ns; };
  while (!kept_.empty() && (too_old() || kept_bytes_ > kKeptBytesMax)) {
    kept_less_ |= !too_old();
    kept_bytes_ -= bytes_of(kept_.front());
    kept_.pop_front();
  }
}

Status Session::write_kept() {
  for (const CapturedFrame& frame : kept_)
    if (Status status = file_->add(frame); !status) return status;
  return {};
}

int Session::say_end(const Status& status) {
  if (!status && !(options_.file == "-" && status.error().code == EPIPE))
    return serve::fail("dump",
                       fmt::format("{} (after {} packets)", status.error().message, file_->packets()));
  const CapturedFrames::Counts counts = frames_.counts();
  std::string more;
  if (counts.lost != 0) more += fmt::format(", {} lost because they were not read in time", counts.lost);
  if (kept_less_) more += ", of a shorter time than was asked for: memory is bounded";
  if (options_.last_ns && frames_.errors() != 0) more += ", up to an error";
  fmt::print(stderr, "uroce dump: {} packets{}\n", file_->packets(), more);
  return 0;
}

}  // namespace uroce::dump
