#include "apps/dump/session.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "apps/serve/asking.h"
#include "base/values/printable.h"
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

/// 0: that is not known.
bool is_no_more(int pid) { return pid != 0 && kill(pid, 0) != 0 && errno == ESRCH; }

bool has_ended(int process) {
  pollfd source{.fd = process, .events = POLLIN, .revents = 0};
  return poll(&source, 1, 0) > 0;
}

}  // namespace

Session::Session(const Options& options) : options_(options), frames_(now_ns()) {}

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
  if (answer->message.error != 0) return Error{answer->message.error, printable(answer->message.text)};
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
  if (message.error != 0) return Error{message.error, printable(message.text)};
  first_ = std::move(*received);
  return {};
}

void Session::take_messages() {
  if (process_) ended_ = ended_ || !process_->is_open() || has_ended(process_->process());
  while (!ended_ && !process_) {
    auto received = drivers::ControlSocket(connection_.get()).receive();
    if (!received || (received->has_value() && (**received).message.type == MessageType::kDone)) {
      ended_ = true;
    } else if (!received->has_value()) {
      return;
    } else {
      on_captured(**received);
    }
  }
}

void Session::on_captured(host::Datagram& datagram) {
  const host::Message& message = datagram.message;
  if (message.type != MessageType::kCaptured) return;
  if (message.error != 0 || datagram.descriptors != 1) {
    say_left_out(fmt::format("process {} does not capture: {}", message.id, printable(message.text)));
    return;
  }
  add_source(datagram.descriptor[0].get(), printable(message.name), printable(message.text), message.id);
}

/// One whose memory is unsound is left out, and does not end the capture of the others.
void Session::add_source(int memory, const std::string& device, const std::string& program, uint64_t pid) {
  // Of a process of another PID namespace the end is not seen.
  const int watched = is_no_more(static_cast<int>(pid)) ? 0 : static_cast<int>(pid);
  if (const Status status = frames_.add(memory, watched); !status)
    return say_left_out(fmt::format("process {}, {}, is left out: {}", pid, program, status.error().message));
  file_->add_interface(fmt::format("{} {}", device, pid), fmt::format("{}, process {}", program, pid),
                       options_.order.snap_bytes);
}

/// Programs that come and go may be many.
void Session::say_left_out(const std::string& line) {
  constexpr uint32_t kLinesMax = 64;
  if (++left_out_ <= kLinesMax) serve::fail("dump", line);
}

/// With the programs that capture by now.
Status Session::begin_file() {
  auto file = CaptureFile::create(options_.file);
  if (!file) return file.error();
  file_.emplace(std::move(*file));
  for (const auto& [device, memory] : of_process_)
    add_source(memory.get(), device, process_->program(), pid_);
  if (first_) on_captured(*first_);
  return {};
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
    take_messages();
    const int64_t now = now_ns();
    frames_.drain(now);
    status = pass_on(now, false);
    if (!status || now < flush_at) continue;
    frames_.forget_ended(is_no_more);
    if (!options_.last_ns) status = file_->flush();
    flush_at = now + kFlushEveryNs;
  }
  // What the programs have captured up to now; the order ends with the connection, or here. One that goes on
  // without end is not followed.
  if (process_) static_cast<void>(process_->order(host::OrderKind::kStop, 0, {}));
  constexpr int kLastDrains = 64;
  for (int i = 0; status && i < kLastDrains && frames_.drain(now_ns()); ++i)
    if (!enough()) status = pass_on(now_ns(), true);
  if (status) status = pass_on(now_ns(), true);
  if (status) status = write_kept();
  if (status) status = file_->finish(frames_, now_ns());
  return say_end(status);
}

bool Session::enough() const { return options_.count != 0 && file_->packets() >= options_.count; }

bool Session::is_over() const {
  return stopped != 0 || ended_ || enough() || (options_.last_ns && frames_.errors() != 0);
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
  if (left_out_ != 0) more += fmt::format(", {} programs were left out", left_out_);
  if (kept_less_) more += ", of a shorter time than was asked for: memory is bounded";
  if (options_.last_ns && frames_.errors() != 0) more += ", up to an error";
  fmt::print(stderr, "uroce dump: {} packets{}\n", file_->packets(), more);
  return 0;
}

}  // namespace uroce::dump
