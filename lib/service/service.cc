#include "service/service.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "engine/platform/clock.h"
#include "engine/platform/log.h"

namespace uroce::service {
namespace {

// What epoll says an event is about; beside these, the number of a program, which is 32 bits. With kProcess
// the program's process has ended.
constexpr uint64_t kListener = uint64_t{1} << 32;
constexpr uint64_t kChanges = uint64_t{2} << 32;
constexpr uint64_t kProcess = uint64_t{4} << 32;

bool watch_at(int poll, int descriptor, uint64_t what) {
  epoll_event event{.events = EPOLLIN, .data = {.u64 = what}};
  return epoll_ctl(poll, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

}  // namespace

Result<std::unique_ptr<Service>> Service::create(ListeningSocket socket, Options options) {
  Descriptor poll(epoll_create1(EPOLL_CLOEXEC));
  Descriptor changes(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  const bool watched = poll.ok() && changes.ok() && watch_at(poll.get(), socket.get(), kListener) &&
                       watch_at(poll.get(), changes.get(), kChanges);
  if (!watched)
    return Error{errno, std::string("the service cannot wait for events: ") + std::strerror(errno)};
  return std::unique_ptr<Service>(
      new Service(std::move(socket), std::move(options), std::move(poll), std::move(changes)));
}

Service::Service(ListeningSocket socket, Options options, Descriptor poll, Descriptor changes)
    : socket_(std::move(socket)),
      reload_(std::move(options.reload)),
      beside_(std::move(options.beside)),
      configuration_(std::move(options.configuration)),
      poll_(std::move(poll)),
      changes_(std::move(changes)) {
  apply_quotas();
  for (faults::Rule& rule : options.faults) faults_.push_back({.id = next_fault_++, .rule = std::move(rule)});
}

Service::~Service() {
  for (auto& [id, program] : programs_) detach(*program, Numbers::kKept);
  for (auto& [id, program] : programs_) close_connection(*program);
  // Those that were not taken would be closed with the socket.
  while (socket_.is_own()) {
    Descriptor connection(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!connection.ok()) break;
    closer_.close_connection(0, std::move(connection));
  }
}

Status Service::add(std::shared_ptr<engine::Stack> stack, size_t index) {
  std::vector<engine::DeviceConfiguration> all;
  for (const auto& served : devices_) all.push_back(served->configuration());
  all.push_back(stack->configuration().devices.at(index));
  if (Status status = check_addresses(all); !status) return status;
  auto device = ServedDevice::open({.stack = std::move(stack), .index = index, .changes = changes_.get()});
  if (!device) return device.error();
  devices_.push_back(std::move(*device));
  apply_quotas();
  return {};
}

void Service::request_stop() {
  stop_.store(true, std::memory_order_relaxed);  // the write orders it
  wake();
}

void Service::request_reload() {
  reload_wanted_.store(true, std::memory_order_relaxed);  // likewise
  wake();
}

void Service::wake() {
  constexpr uint64_t kOne = 1;
  if (write(changes_.get(), &kOne, sizeof kOne) < 0) return;  // EAGAIN: the thread will look anyway
}

void Service::run() {
  now_ = started_ = idle_since_ = engine::clock_now();
  for (OrderedFault& fault : faults_) fault.since = now_;
  while (true) {
    const bool stops = is_to_stop();
    if ((beside_ == nullptr || beside_(stops)) && stops) return;
    round();
  }
}

bool Service::watch(int descriptor, uint64_t what) const { return watch_at(poll_.get(), descriptor, what); }

bool Service::is_to_stop() const {
  // Relaxed: request_stop() has written to the descriptor.
  if (stop_.load(std::memory_order_relaxed)) return true;
  // One that is connected is about to attach.
  const bool idle_exits = configuration_.idle_exit_s && programs_.empty() && disconnect_at_ == kNever;
  return idle_exits && now_ - idle_since_ >= seconds(*configuration_.idle_exit_s);
}

void Service::round() {
  constexpr int kEventsMax = 64;
  std::array<epoll_event, kEventsMax> events;
  const Duration wait = std::max(Duration{}, next_deadline() - engine::clock_now());
  const auto wait_ms = static_cast<int>(std::min(wait, kTick).ns / milliseconds(1).ns);
  const int count = epoll_wait(poll_.get(), events.data(), kEventsMax, wait_ms + (wait.ns > 0 ? 1 : 0));
  now_ = engine::clock_now();
  ++round_;
  bool connects = false;
  for (const epoll_event& event : std::span(events).first(static_cast<size_t>(std::max(count, 0)))) {
    if (event.data.u64 == kListener) {
      connects = true;
    } else if (event.data.u64 == kChanges) {
      take_changes();
    } else if (ClientProcess* const program = find(static_cast<uint32_t>(event.data.u64))) {
      if ((event.data.u64 & kProcess) != 0 || (event.events & (EPOLLHUP | EPOLLERR)) != 0)
        program->ended = true;
      if ((event.events & EPOLLOUT) != 0) inform(*program);
      if ((event.events & EPOLLIN) != 0 && !program->ended) read_from(*program);
    }
  }
  if (connects) {
    // Behind the messages of those that are connected, most of which attach, and the ends of others: both
    // give places up.
    sweep();
    accept_all();
  }
  look_at_deadlines();
  for (auto& [id, program] : programs_) update_interest(*program);
  sweep();
}

Instant Service::next_deadline() const {
  Instant next = std::min({next_tick_, introductions_.deadline(), neighbours_.deadline(), disconnect_at_,
                           accept_at_, closer_.deadline()});
  for (const auto& [id, program] : programs_)
    if (program->paused) next = std::min(next, program->account->budget.ready_at());
  return next;
}

/// A process that it has forked may hold the connection open, but does not have the device. Without a
/// descriptor the connection alone tells of the end.
void Service::watch_process(ClientProcess& program) {
  if (program.peer.pid <= 0) return;  // in another namespace of processes
  program.process = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, program.peer.pid, 0)));
  if (program.process.ok()) watch(program.process.get(), kProcess | program.id);
}

void Service::read_from(ClientProcess& program) {
  for (size_t i = 0; i < kReadAtOnce && !program.ended; ++i) {
    if (!has_room(program)) return;
    const RequestBudget::Answer answer = program.account->budget.ask(round_, now_);
    program.paused = answer == RequestBudget::Answer::kPaused;
    if (answer != RequestBudget::Answer::kRead) return;
    host::Datagram datagram = take_datagram(program);
    if (datagram.kind == host::Datagram::Kind::kNothing) return;
    if (datagram.kind == host::Datagram::Kind::kEnd) {
      program.ended = true;
    } else if (datagram.kind == host::Datagram::Kind::kGarbage) {
      violate(program, "not a message of the protocol");
    } else {
      program.account->budget.charge(cost_of(datagram.message.type), now_);
      handle(program, datagram);
    }
    close_rest(program, datagram);
  }
}

/// What epoll waits for: a program that does not read is not read either.
void Service::update_interest(ClientProcess& program) {
  if (program.outbox.broken()) program.ended = true;
  if (program.ended) return;
  if (program.paused && now_ >= program.account->budget.ready_at()) program.paused = false;
  const bool readable = !program.paused && has_room(program);
  const uint32_t events = (readable ? EPOLLIN : 0u) | (program.outbox.waiting() > 0 ? EPOLLOUT : 0u);
  if (events == program.events) return;
  program.events = events;
  epoll_event event{.events = events, .data = {.u64 = program.id}};
  epoll_ctl(poll_.get(), EPOLL_CTL_MOD, program.socket.get(), &event);
}

void Service::take_changes() {
  uint64_t count = 0;
  if (read(changes_.get(), &count, sizeof count) < 0) return;
  if (reload_wanted_.exchange(false, std::memory_order_relaxed)) {
    if (const Status status = read_configuration(); !status)
      engine::write_log(engine::LogLevel::kError, "uroce serve", status.error().message);
  }
  for (const auto& device : devices_) device->refresh();
  inform_all();
}

void Service::look_at_deadlines() {
  watch_closing();
  if (now_ >= neighbours_.deadline())
    for (const NeighbourWatch::Answer& answer : neighbours_.answers(now_)) tell_resolved(answer);
  while (const auto late = introductions_.take_if([&](const Introduction& i) { return i.until <= now_; }))
    fail(*late, ETIMEDOUT, "the other program does not answer");
  if (now_ >= disconnect_at_) disconnect();
  if (now_ >= accept_at_) {
    accept_at_ = watch(socket_.get(), kListener) ? kNever : now_ + kAcceptPause;
  }
  if (now_ >= next_tick_) {
    next_tick_ = now_ + kTick;
    tick();
  }
}

/// Gives each device a turn when peers of ended programs are to be told: its poller may sleep.
void Service::disconnect() {
  // A device's time passes in steps that are bounded for each turn.
  constexpr Duration kStepMax = milliseconds(50);
  disconnect_at_ = kNever;
  for (const auto& device : devices_) {
    device->with_switch([&](ProgramSwitch& programs) {
      if (const auto in = programs.time_to_disconnect())
        disconnect_at_ = std::min(disconnect_at_, now_ + std::clamp(*in, milliseconds(1), kStepMax));
    });
  }
}

void Service::tick() {
  accounts_.forget_idle(now_);
  for (const auto& moved : neighbours_.moved()) tell_moved(*moved.device, moved.neighbour.address, moved.mac);
  for (const auto& device : devices_) {
    // The MTU of an interface changes without an event.
    if (attached_ > 0) device->refresh();
    std::vector<uint32_t> broken;
    std::vector<std::pair<uint32_t, ClientSession::Counters>> counters;
    device->for_each([&](ClientSession& program) {
      counters.emplace_back(program.program(), program.counters());
      if (program.channel().broken()) broken.push_back(program.program());
    });
    for (const auto& [id, counted] : counters)
      if (ClientProcess* const program = find(id)) program->traffic.look(counted, now_);
    for (const uint32_t id : broken)
      if (ClientProcess* const program = find(id)) violate(*program, "its memory breaks the format");
  }
  end_late_unattached();
  inform_all();
}

void Service::violate(ClientProcess& program, std::string_view what) { end(program, EPROTO, what); }

void Service::end(ClientProcess& program, int error, std::string_view text) {
  if (std::exchange(program.ended, true)) return;
  Message message{.type = host::MessageType::kDone, .error = error};
  host::set_text(message.text, text);
  if (program.outbox.waiting() == 0) post(program, message);
}

/// What a program has sent before it ended is on its way: the last acknowledgements, and that it disconnects.
/// Each look is in a turn, in which the switch takes some of them.
void Service::forward_last_frames(ClientProcess& program) {
  constexpr int kTurnsMax = 2 * host::kRingFrames / ProgramSwitch::kFramesMax;
  bool pending = true;
  for (int turns = 0; pending && turns < kTurnsMax; ++turns)
    program.device->with_switch([&](ProgramSwitch&) { pending = program.attachment->channel().pending(); });
}

/// Nothing of the program is left but its connection. Others hear that it has gone.
void Service::detach(ClientProcess& program, Numbers numbers) {
  if (!program.attached()) return;
  const uint32_t id = program.id;
  const NumberBlock block = program.attachment->block();
  forward_last_frames(program);
  end_faults_of(program);
  // One that may come back has its connections still.
  std::vector<host::OpenConnection> left;
  if (numbers == Numbers::kGivenUp) left = program.attachment->connections();
  program.device->remove(*program.attachment);
  if (!left.empty()) {
    program.device->with_switch(
        [&](ProgramSwitch& programs) { programs.disconnect(block, program.peer.uid, std::move(left)); });
  }
  disconnect_at_ = now_;
  for (const Gid& group : program.groups) program.device->release_group(group);
  program.groups.clear();
  if (numbers == Numbers::kGivenUp) program.attachment->revoke();
  program.attachment.reset();
  program.device->numbers().free(block, id, now_);
  give_back_shares(program);
  neighbours_.forget(id);
  end_introductions(program);
  for (auto& [other_id, other] : programs_) {
    other->outbox.retract(id);
    if (!other->attached() || other->device != program.device) continue;
    if (std::ranges::find(other->gone, block) == other->gone.end()) other->gone.push_back(block);
  }
  program.device = nullptr;
  if (--attached_ == 0) idle_since_ = now_;
}

void Service::sweep() {
  bool any = false;
  for (auto at = programs_.begin(); at != programs_.end();) {
    if (!at->second->ended) {
      ++at;
      continue;
    }
    detach(*at->second, Numbers::kGivenUp);
    end_captures_of(*at->second);
    close_connection(*at->second);
    accounts_.close(*at->second->account);
    at = programs_.erase(at);
    any = true;
  }
  if (!any) return;
  inform_all();
  for (auto& [id, program] : programs_) update_interest(*program);
}

ClientProcess* Service::find(uint32_t id) const {
  const auto at = programs_.find(id);
  return at == programs_.end() || at->second->ended ? nullptr : at->second.get();
}

}  // namespace uroce::service
