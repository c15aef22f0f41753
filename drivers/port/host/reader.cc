// The thread that reads what the service tells, and speaks for the poller of the port.
//
// A service that is away is looked for ten times a second; one that refuses is asked less and less often,
// down to once a second, because a removed device may have a thousand programs, all of which ask one thread.
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "drivers/port/host/attachment.h"
#include "drivers/process/signals_blocked.h"

namespace uroce::drivers {
namespace {

using host::Message;
using host::MessageType;
using Kind = PeerChange::Kind;

/// How soon a service that is away is looked for again.
constexpr std::chrono::milliseconds kReturn{100};
/// How soon one that goes on refusing is asked again: it may have all of its programs to refuse.
constexpr std::chrono::milliseconds kReturnMax{1000};
/// How soon the poller is told again what it had no room for.
constexpr int kUnsaidMs = 1;
/// Messages of the service before other things have their turn.
constexpr int kMessagesAtOnce = 64;
/// Beyond so many that the poller has yet to be told, the service is not read.
constexpr size_t kUnsaidMax = 256;

}  // namespace

Status Attachment::begin(host::OwnMemory& own) {
  own_ = &own;
  give_service_to_poller();
  try {
    const SignalsBlocked blocked;
    thread_ = std::thread([this] { read_for_ever(); });
  } catch (const std::system_error&) {
    return Error{EAGAIN, "no thread can be started"};
  }
  pthread_setname_np(thread_.native_handle(), "uroce-host");
  return {};
}

/// The service as it was attached last.
void Attachment::give_service_to_poller() {
  const std::byte* const bell = first_service_->bell.data();
  first_service_->channel = std::make_unique<host::Channel>(
      *own_, 0,
      host::Channel::FarEnd{.memory = first_service_->memory.data(),
                            .shape = host::kServiceMemory,
                            .channel = 0,
                            .bell = reinterpret_cast<const host::Bell*>(bell)});
  poller_has_service_ = true;
  tell_poller({.kind = Kind::kService, .peer = std::move(first_service_)});
}

void Attachment::read_for_ever() {
  while (!stopping_) {
    const bool woken = wait_for_something();
    if (woken) exchange_.clear_wake();
    std::vector<std::unique_ptr<PeerChange>> again;
    again.swap(unsaid_);
    for (auto& change : again) tell_poller(std::move(*change));
    take_retired();
    if (may_read()) {
      take_messages();
    } else if (may_return() && Clock::now() >= return_at_) {
      return_to_service();
    }
    take_questions();
  }
}

bool Attachment::may_read() const { return connected_ && unsaid_.size() < kUnsaidMax; }

/// A channel to the service is made anew: before that, the poller has to have given the old one back.
bool Attachment::may_return() const { return !connected_ && !stopping_ && !gone_ && !poller_has_service_; }

/// In ms, for poll(); -1: for ever.
int Attachment::patience() const {
  if (!unsaid_.empty()) return kUnsaidMs;
  if (!may_return()) return -1;
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(return_at_ - Clock::now());
  return std::max(0, static_cast<int>(left.count()));
}

/// True: the poller has something.
bool Attachment::wait_for_something() const {
  pollfd sources[] = {{.fd = exchange_.descriptor(), .events = POLLIN, .revents = 0},
                      {.fd = may_read() ? socket_.get() : -1, .events = POLLIN, .revents = 0}};
  if (poll(sources, std::size(sources), patience()) < 0) return false;
  return sources[0].revents != 0;
}

void Attachment::take_messages() {
  for (int left = kMessagesAtOnce; left > 0; --left) {
    Result<std::optional<host::Datagram>> received = ControlSocket(socket_.get()).receive();
    if (!received) return lose_service();
    if (!received->has_value()) return;
    handle(**received);
  }
}

void Attachment::handle(host::Datagram& received) {
  const Message& message = received.message;
  switch (message.type) {
    case MessageType::kIntroduction:
      return on_introduction(received);
    case MessageType::kIntroduced:
      return on_introduced(received);
    case MessageType::kGone:
      return on_gone({message.number, message.count});
    case MessageType::kDone:
      if (introductions_.contains(message.request)) return on_refused_introduction(message);
      return deliver_answer(message);
    case MessageType::kSource:
    case MessageType::kOwner:
      return deliver_answer(message);
    case MessageType::kFault:
      return on_fault(message);
    default:
      return notify(message);
  }
}

/// False: it says what there cannot be.
bool Attachment::note(const Message& message) {
  const std::lock_guard guard(mutex_);
  if (message.type == MessageType::kPrograms) {
    programs_ = message.count;
  } else if (message.type == MessageType::kLink) {
    link_up_ = message.up != 0;
    mtu_ = message.mtu;
  } else if (message.type == MessageType::kAddressRemoved) {
    std::erase_if(addresses_, [&](const auto& one) { return one.address == message.address; });
  } else if (message.type == MessageType::kAddressAdded) {
    return note_added(addresses_, message);
  }
  return true;
}

/// What concerns the device as a whole.
void Attachment::notify(const Message& message) {
  if (!note(message)) return;
  const std::lock_guard guard(listening_);
  if (message.type == MessageType::kFaultRemoved)
    std::erase_if(faults_, [&](const auto& fault) { return fault.id == message.number; });
  if (listener_ == nullptr) return;
  switch (message.type) {
    case MessageType::kResolved:
      if (message.error != 0)
        return listener_->resolution_failed({message.address, message.vlan}, message.error);
      return listener_->resolved({message.address, message.vlan}, message.hop, message.mac);
    case MessageType::kForgetNeighbour:
      if (message.hop == Gid{}) return listener_->forget_neighbours(std::nullopt, std::nullopt);
      return listener_->forget_neighbours(
          message.hop, message.mac != MacAddress{} ? std::optional(message.mac) : std::nullopt);
    case MessageType::kAddressAdded:
      return listener_->address_added({message.address, message.prefix_bits, message.vlan});
    case MessageType::kAddressRemoved:
      return listener_->address_removed(message.address);
    case MessageType::kFaultRemoved:
      return listener_->fault_removed(message.number);
    case MessageType::kLink:
      return listener_->link_changed();
    case MessageType::kPrograms:
      return listener_->programs_changed();
    default:
      return;  // of a service that is newer than this program
  }
}

/// Before there is a listener there are no queue pairs either, and it hears of what came by then.
void Attachment::on_fault(const Message& message) {
  const host::SharedFault fault{message.number, std::string(host::text_of(message.text))};
  const std::lock_guard guard(listening_);
  const bool captures = fault.rule.starts_with(host::kCaptureOrder);
  int error = 0;
  if (listener_ == nullptr) {
    if (!captures) tell({.type = MessageType::kFaultTaken, .number = fault.id});
  } else {
    error = take_fault(fault);
  }
  const bool lasts = listener_ == nullptr || !fault.rule.starts_with(host::kBreakOrder);
  if (error == 0 && lasts && faults_.size() < host::kFaultsMax) faults_.push_back(fault);
}

/// The listener hears of it, and the service what it says.
int Attachment::take_fault(const host::SharedFault& fault) {
  Message answer{.type = MessageType::kFaultTaken, .number = fault.id};
  if (!fault.rule.starts_with(host::kCaptureOrder)) {
    answer.error = listener_->fault_added(fault);
    tell(answer);
    return answer.error;
  }
  const Result<int> memory = listener_->capture_added(fault);
  if (memory) {
    const int descriptor = *memory;
    tell(answer, {&descriptor, 1});
    return 0;
  }
  answer.error = memory.error().code;
  host::set_text(answer.text, memory.error().message);
  tell(answer);
  return answer.error;
}

/// A service that is away cannot end what it has ordered.
void Attachment::forget_faults() {
  const std::lock_guard guard(listening_);
  for (const host::SharedFault& fault : std::exchange(faults_, {}))
    if (listener_ != nullptr) listener_->fault_removed(fault.id);
}

void Attachment::tell_poller(PeerChange change) {
  auto told = std::make_unique<PeerChange>(std::move(change));
  // In order: what is waiting comes first.
  if (unsaid_.empty() && exchange_.tell(told)) return;
  unsaid_.push_back(std::move(told));
}

// The service's own life.

/// Channels to other programs go on. What waits for an answer gets none.
void Attachment::lose_service() {
  {
    const std::lock_guard guard(mutex_);
    connected_ = false;
    socket_ = Descriptor();
    for (const auto& [request, waiting] : requests_)
      waiting->answer = Message{.type = MessageType::kDone, .error = ENETDOWN};
    answered_.notify_all();
  }
  return_in_ = kReturn;
  return_at_ = Clock::now() + return_in_;
  tell_poller({.kind = Kind::kService});
  while (!introductions_.empty())
    on_refused_introduction({.request = introductions_.begin()->first, .error = ENETDOWN});
  forget_faults();
  const std::lock_guard guard(listening_);
  if (listener_ != nullptr) listener_->link_changed();
}

void Attachment::return_to_service() {
  const std::vector<host::SharedAddress> before = addresses();
  if (const Status status = attach(); !status) {
    const bool absent = status.error().code == ENOENT || status.error().code == ECONNREFUSED;
    return_in_ = absent ? kReturn : std::min(2 * return_in_, kReturnMax);
    return_at_ = Clock::now() + return_in_;
    return;
  }
  give_service_to_poller();
  tell_service_again();
  const std::vector<host::SharedAddress> now = addresses();
  const std::lock_guard guard(listening_);
  if (listener_ == nullptr) return;
  const auto has = [](const auto& all, const Gid& address) {
    return std::ranges::find(all, address, &host::SharedAddress::address) != all.end();
  };
  for (const auto& one : before)
    if (!has(now, one.address)) listener_->address_removed(one.address);
  for (const auto& one : now)
    if (!has(before, one.address)) listener_->address_added(one);
  listener_->link_changed();
}

/// Ports and groups. Answers find no question, and a port that another program has got meanwhile stays its
/// own.
void Attachment::tell_service_again() {
  const std::lock_guard guard(mutex_);
  const ControlSocket control(socket_.get());
  for (const auto& [id, bound] : bound_) {
    static_cast<void>(control.send(bound.bind));
    if (bound.listens) static_cast<void>(control.send({.type = MessageType::kListen, .id = id}));
  }
  for (const Gid& group : groups_)
    static_cast<void>(control.send({.type = MessageType::kJoin, .address = group}));
}

}  // namespace uroce::drivers
