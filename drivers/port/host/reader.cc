// The thread that reads what the service tells, and speaks for the poller of the port.
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

constexpr bool overlap(NumberBlock one, NumberBlock other) {
  return one.contains({other.first}) || other.contains({one.first});
}

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

// Other programs.

std::optional<uint32_t> Attachment::take_channel() {
  const auto free = std::ranges::find(channels_, false);
  if (free == channels_.end()) return std::nullopt;
  *free = true;
  return static_cast<uint32_t>(free - channels_.begin());
}

void Attachment::tell_poller(PeerChange change) {
  auto told = std::make_unique<PeerChange>(std::move(change));
  // In order: what is waiting comes first.
  if (unsaid_.empty() && exchange_.tell(told)) return;
  unsaid_.push_back(std::move(told));
}

/// The poller wants to reach programs. Each question gets an answer, which may be that there is none.
void Attachment::take_questions() {
  while (const auto asked = exchange_.take_question()) {
    // The poller has asked before it heard of it, and sends what waits when it does.
    if (is_reached(*asked)) continue;
    const auto channel = connected_ ? take_channel() : std::nullopt;
    if (!channel) {
      tell_poller({.kind = Kind::kAbsent, .asked = *asked});
      continue;
    }
    Message message{.type = MessageType::kIntroduce, .number = asked->value, .channel = *channel};
    {
      const std::lock_guard guard(mutex_);
      message.request = next_request_++;
    }
    introductions_.emplace(message.request, Introduction{*asked, *channel});
    if (const Status sent = ControlSocket(socket_.get()).send(message); !sent)
      on_refused_introduction({.request = message.request, .error = sent.error().code});
  }
}

/// Peers that the poller does not use any more: their memory is unmapped here, and their channels are free.
void Attachment::take_retired() {
  while (const std::unique_ptr<Peer> peer = exchange_.take_retired()) {
    if (peer->number != 0)
      channels_[peer->number] = false;
    else
      poller_has_service_ = false;
  }
}

/// A peer whose end of the channel has number `number` here. Null: what it says, or its memory, is unsound.
std::unique_ptr<Peer> Attachment::make_peer(const Message& message, uint32_t number, int descriptor) {
  const NumberBlock block{message.number, message.count};
  const bool sound = message.channel < host::kProgramMemory.channels && host::is_block_of_program(block) &&
                     !overlap(block, numbers_);
  if (!sound) return nullptr;
  Result<host::Mapping> memory = host::map_sealed_memory(descriptor, host::kProgramMemory);
  if (!memory) return nullptr;
  auto peer = std::make_unique<Peer>();
  peer->block = block;
  peer->number = number;
  peer->memory = std::move(*memory);
  const host::MemoryLayout layout(host::kProgramMemory);
  const std::byte* const data = peer->memory.data();
  peer->channel = std::make_unique<host::Channel>(*own_, number,
                                                  host::Channel::FarEnd{.memory = data,
                                                                        .shape = host::kProgramMemory,
                                                                        .channel = message.channel,
                                                                        .bell = &layout.bell(data)});
  return peer;
}

/// Another program wants to reach this one. When both ask at once the service refuses the later question
/// (EALREADY), which this answers.
void Attachment::on_introduction(host::Datagram& received) {
  const Message& message = received.message;
  Message answer{.type = MessageType::kFound, .request = message.request, .error = ENOSPC};
  const auto channel = take_channel();
  std::unique_ptr<Peer> peer = channel ? make_peer(message, *channel, received.descriptor[0].get()) : nullptr;
  if (peer != nullptr) {
    answer.error = 0;
    answer.channel = *channel;
    note_reached(std::move(peer), {});
  } else {
    if (channel) channels_[*channel] = false;
    give_up_awaited();
  }
  tell(answer);
}

void Attachment::on_introduced(host::Datagram& received) {
  const Message& message = received.message;
  const auto found = introductions_.find(message.request);
  if (found == introductions_.end()) return;
  const Introduction introduction = found->second;
  // Until then the service refuses questions for other numbers of the same program: those that were sent
  // before this was read would get the program a second channel.
  tell({.type = MessageType::kConfirm, .request = message.request});
  std::unique_ptr<Peer> peer = make_peer(message, introduction.channel, received.descriptor[0].get());
  if (peer == nullptr || !peer->block.contains(introduction.asked))
    return on_refused_introduction({.request = message.request, .error = EPROTO});
  introductions_.erase(found);
  note_reached(std::move(peer), introduction.asked);
}

bool Attachment::is_reached(QpNumber number) const {
  return std::ranges::any_of(reached_, [&](NumberBlock block) { return block.contains(number); });
}

/// A program is never reached twice: frames that were given to one channel may be under way in it for as long
/// as the program lives. One that had some of these numbers has ended while the service was away.
void Attachment::note_reached(std::unique_ptr<Peer> peer, QpNumber asked) {
  const NumberBlock block = peer->block;
  for (const NumberBlock before : std::vector(reached_))
    if (overlap(before, block)) on_gone(before);
  reached_.push_back(block);
  std::erase_if(awaited_, [&](QpNumber number) { return block.contains(number); });
  tell_poller({.kind = Kind::kReached, .asked = asked, .block = block, .peer = std::move(peer)});
}

/// An introduction has failed that others may have waited for: what waits for these is lost, and the next
/// frame asks anew.
void Attachment::give_up_awaited() {
  for (const QpNumber asked : awaited_) tell_poller({.kind = Kind::kAbsent, .asked = asked});
  awaited_.clear();
}

/// EPERM: the two may not share memory, and the service passes their frames on.
void Attachment::on_refused_introduction(const Message& answer) {
  const Introduction introduction = introductions_.extract(answer.request).mapped();
  channels_[introduction.channel] = false;
  if (answer.error == EALREADY) {
    // Another number of the same program was asked for before, or by that program.
    if (!is_reached(introduction.asked)) awaited_.push_back(introduction.asked);
    return;
  }
  tell_poller({.kind = answer.error == EPERM ? Kind::kRelayed : Kind::kAbsent, .asked = introduction.asked});
  give_up_awaited();
}

void Attachment::on_gone(NumberBlock block) {
  std::erase(reached_, block);
  give_up_awaited();
  tell_poller({.kind = Kind::kGone, .block = block});
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
