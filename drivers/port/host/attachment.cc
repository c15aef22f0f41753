// The service is trusted no more than a peer, because anything may answer at the socket: attaching takes 5 s
// at most, numbers, addresses and introductions are checked, memory is mapped only if sealed, and text is
// shown as one printable line.
// A program attaches again only when its poller has given the last channel back, because the ring of channel
// 0 begins anew. A shared device that comes back with another MAC is fatal (IBV_EVENT_DEVICE_FATAL): its GUID
// and the addresses that peers know came from the old one.
#include "drivers/port/host/attachment.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/values/printable.h"
#include "host/network_namespace.h"

namespace uroce::drivers {
namespace {

using host::Message;
using host::MessageType;

constexpr int kAnswerMs = 5'000;
/// The largest errno that Linux has.
constexpr int kErrnoMax = 4095;
constexpr size_t kDevicesMax = 1024;
constexpr uint32_t kServiceChannel = 0;

Error unanswered(const std::string& socket, const Error& error) {
  return {error.code, "host service at " + socket + ": " + error.message};
}

std::string program_name() {
  char path[256];
  const ssize_t length = readlink("/proc/self/exe", path, sizeof path);
  const std::string whole(path, length > 0 ? static_cast<size_t>(length) : 0);
  return whole.substr(whole.rfind('/') + 1);
}

/// What is wrong, as an answer says it: one line, whatever it holds.
Error complaint_of(const Message& answer) {
  const std::string text = printable(answer.text);
  const bool known = answer.error > 0 && answer.error <= kErrnoMax;
  return {known ? answer.error : EPROTO, text.empty() ? "refuses without a reason" : text};
}

/// An answer that says what is wrong, or that it is none of `expected`.
Status check(const Message& answer, MessageType expected) {
  if (answer.type == MessageType::kDone && answer.error != 0) return complaint_of(answer);
  if (answer.type != expected) return Error{EPROTO, "answers otherwise than was asked"};
  return {};
}

}  // namespace

Result<std::unique_ptr<Attachment>> Attachment::open(const Options& options) {
  std::unique_ptr<Attachment> attachment(new Attachment(options));
  if (!attachment->exchange_.ready()) return Error{EMFILE, "no descriptor is left"};
  Result<host::SealedMemory> memory =
      host::make_sealed_memory("uroce", host::MemoryLayout(host::kProgramMemory).bytes());
  if (!memory) return memory.error();
  attachment->memory_ = std::move(memory->mapping);
  attachment->shown_memory_ = UninheritedDescriptor(std::move(memory->descriptor));
  // The service looks at the beginning when it maps the memory.
  const host::OwnMemory formatted(attachment->memory(), host::kProgramMemory);
  attachment->channels_.resize(host::kProgramMemory.channels);
  attachment->channels_[kServiceChannel] = true;
  if (Status status = attachment->attach(); !status) return unanswered(options.socket, status.error());
  return attachment;
}

Attachment::~Attachment() { end(); }

void Attachment::end() {
  stopping_ = true;
  exchange_.wake();
  if (thread_.joinable()) thread_.join();
}

/// Connects and says hello; the reader does not run, or is the caller.
Status Attachment::attach() {
  Result<Descriptor> connected = connect_to(options_.socket);
  if (!connected) return connected.error();
  UninheritedDescriptor socket(std::move(*connected));
  Message hello{.type = MessageType::kAttach,
                .version = host::kControlVersion,
                .number = numbers_.first,
                .count = numbers_.count != 0 ? numbers_.count : options_.numbers};
  host::set_text(hello.name, options_.device);
  host::set_text(hello.text, program_name());
  const ControlSocket control(socket.get());
  const Deadline deadline = deadline_in(kAnswerMs);
  const int shown[] = {shown_memory_.get(), granted_.get()};
  const size_t count = numbers_.count != 0 ? 2 : 1;
  if (Status status = control.send(hello, std::span(shown).first(count)); !status) return status;
  Result<host::Datagram> answer = control.wait(deadline);
  if (!answer) return answer.error();
  if (Status status = check(answer->message, MessageType::kAttached); !status) return status;
  Result<FirstNews> news = take_first_news(control, deadline);
  if (!news) return news.error();
  if (Status status = take_attached(*answer); !status) return status;
  programs_ = news->programs;
  const std::lock_guard guard(mutex_);
  addresses_ = std::move(news->addresses);
  socket_ = std::move(socket);
  connected_ = true;
  return {};
}

/// What follows kAttached.
Result<Attachment::FirstNews> Attachment::take_first_news(ControlSocket control, Deadline deadline) {
  FirstNews news;
  for (size_t left = kFirstMessagesMax; left > 0; --left) {
    const Result<host::Datagram> received = control.wait(deadline);
    if (!received) return received.error();
    const Message& said = received->message;
    if (said.type == MessageType::kAddressAdded && !note_added(news.addresses, said))
      return Error{EPROTO, "tells of addresses that there cannot be"};
    if (said.type != MessageType::kPrograms) continue;
    news.programs = said.count;
    return news;
  }
  return Error{EPROTO, "does not come to an end of its addresses"};
}

/// False: it is no address of a device, or there are too many.
bool Attachment::note_added(std::vector<host::SharedAddress>& addresses, const Message& message) {
  constexpr uint8_t kPrefixBitsMax = 128;
  constexpr uint16_t kVlanMax = 4094;
  const bool sound =
      message.address != Gid{} && message.prefix_bits <= kPrefixBitsMax && message.vlan <= kVlanMax;
  if (!sound) return false;
  std::erase_if(addresses, [&](const auto& one) { return one.address == message.address; });
  if (addresses.size() >= host::kAddressesMax) return false;
  addresses.push_back({message.address, message.prefix_bits, message.vlan});
  return true;
}

Status Attachment::take_attached(host::Datagram& answer) {
  const Message& message = answer.message;
  const NumberBlock block{message.number, message.count};
  if (!host::is_block_of_program(block))
    return Error{EPROTO, "gives queue pair numbers that no program can have"};
  const bool returns = numbers_.count != 0;
  if (returns && block != numbers_) return Error{EPROTO, "gives other queue pair numbers"};
  // Addresses of queue pairs and the GUID were made of it.
  gone_ = returns && message.mac != mac_;
  if (gone_) return Error{ENODEV, "has another device by that name"};
  constexpr size_t kPage = 4096;
  Result<host::Mapping> memory = host::map_sealed_memory(answer.descriptor[0].get(), host::kServiceMemory);
  if (!memory) return memory.error();
  Result<host::Mapping> bell = host::map_sealed_memory(answer.descriptor[1].get(), kPage);
  if (!bell) return bell.error();
  first_service_ = std::make_unique<Peer>();
  first_service_->memory = std::move(*memory);
  first_service_->bell = std::move(*bell);
  granted_ = UninheritedDescriptor(std::move(answer.descriptor[0]));
  numbers_ = block;
  mac_ = message.mac;
  mtu_ = message.mtu;
  interface_ = interface_here(message);
  within_host_ = (message.flags & host::kWithinHost) != 0;
  link_up_ = message.up != 0;
  partition_keys_.assign(message.partition_keys.begin(),
                         message.partition_keys.begin() + message.partition_keys_count);
  if (partition_keys_.empty()) partition_keys_.push_back(0xFFFF);
  return {};
}

std::vector<host::SharedAddress> Attachment::addresses() const {
  const std::lock_guard guard(mutex_);
  return addresses_;
}

// Requests.

Result<Message> Attachment::ask(Message message) {
  Request request;
  std::unique_lock lock(mutex_);
  if (!connected_) return Error{ENETDOWN, "the host service is away"};
  message.request = next_request_++;
  if (Status status = ControlSocket(socket_.get()).send(message); !status) return status.error();
  requests_.emplace(message.request, &request);
  const auto done = [&] { return request.answer.has_value(); };
  answered_.wait_for(lock, std::chrono::milliseconds(kAnswerMs), done);
  requests_.erase(message.request);
  if (!done()) return Error{ETIMEDOUT, "the host service does not answer"};
  if (request.answer->type == MessageType::kDone && request.answer->error != 0)
    return complaint_of(*request.answer);
  return *request.answer;
}

void Attachment::deliver_answer(const Message& answer) {
  const std::lock_guard guard(mutex_);
  const auto asked = requests_.find(answer.request);
  if (asked == requests_.end()) return;
  asked->second->answer = answer;
  answered_.notify_all();
}

/// What needs no answer, as far as it can be said.
void Attachment::tell(const Message& message, std::span<const int> descriptors) {
  const std::lock_guard guard(mutex_);
  if (connected_) static_cast<void>(ControlSocket(socket_.get()).send(message, descriptors));
}

Result<uint16_t> Attachment::bind(uint64_t id, const host::PortRequest& request) {
  Message message{.type = MessageType::kBind, .space = request.space, .port = request.port, .id = id};
  message.address = request.address;
  message.flags = (request.reuse ? host::kBindReuse : 0) | (request.family_only ? host::kBindFamilyOnly : 0) |
                  (request.ipv6 ? host::kBindIpv6 : 0);
  const Result<Message> answer = ask(message);
  if (!answer) return answer.error();
  message.port = answer->port;
  const std::lock_guard guard(mutex_);
  bound_[id] = {.bind = message};
  return answer->port;
}

Status Attachment::listen(uint64_t id) {
  const Result<Message> answer = ask({.type = MessageType::kListen, .id = id});
  if (!answer) return answer.error();
  const std::lock_guard guard(mutex_);
  if (const auto bound = bound_.find(id); bound != bound_.end()) bound->second.listens = true;
  return {};
}

void Attachment::release(uint64_t id) {
  {
    const std::lock_guard guard(mutex_);
    bound_.erase(id);
  }
  tell({.type = MessageType::kRelease, .id = id});
}

Status Attachment::join(const Gid& group) {
  const Result<Message> answer = ask({.type = MessageType::kJoin, .address = group});
  if (!answer) return answer.error();
  const std::lock_guard guard(mutex_);
  groups_.push_back(group);
  return {};
}

void Attachment::leave(const Gid& group) {
  {
    const std::lock_guard guard(mutex_);
    std::erase(groups_, group);
  }
  static_cast<void>(ask({.type = MessageType::kLeave, .address = group}));
}

std::optional<Gid> Attachment::source_to(const Gid& destination) {
  const Result<Message> answer = ask({.type = MessageType::kSourceTo, .address = destination});
  return answer && answer->type == MessageType::kSource ? std::optional(answer->address) : std::nullopt;
}

bool Attachment::is_anothers(QpNumber number) {
  if (numbers_.contains(number)) return false;
  const std::vector<host::SharedAddress> ours = addresses();
  if (ours.empty()) return false;
  const Result<Message> answer = ask({.type = MessageType::kWhose,
                                      .version = host::kControlVersion,
                                      .number = number.value,
                                      .address = ours.front().address});
  return answer && answer->type == MessageType::kOwner;
}

void Attachment::resolve(const host::Neighbour& neighbour) {
  tell({.type = MessageType::kResolve, .vlan = neighbour.vlan, .address = neighbour.address});
}

host::ConnectionRows Attachment::connection_rows() {
  const host::MemoryLayout layout(host::kProgramMemory);
  return {{layout.connections(memory()), host::kProgramMemory.connections},
          layout.usage(memory()).connections};
}

std::span<FaultCounts> Attachment::fault_counts() {
  return {host::MemoryLayout(host::kProgramMemory).fault_counts(memory()), host::kFaultsMax};
}

void Attachment::show_queue_pairs(uint32_t count) {
  // Relaxed: it is nothing but a number.
  host::MemoryLayout(host::kProgramMemory)
      .usage(memory())
      .queue_pairs.store(count, std::memory_order_relaxed);
}

void Attachment::start(host::SharedDeviceListener& listener) {
  const std::lock_guard guard(listening_);
  listener_ = &listener;
  for (const host::SharedFault& fault : faults_) {
    if (fault.rule.starts_with(host::kCaptureOrder))
      take_fault(fault);
    else
      listener_->fault_added(fault);
  }
}

void Attachment::stop() {
  // Called by the listener: it holds the lock already.
  if (std::this_thread::get_id() == thread_.get_id()) {
    listener_ = nullptr;
    return;
  }
  const std::lock_guard guard(listening_);
  listener_ = nullptr;
}

uint32_t interface_here(const Message& message) {
  return message.network != 0 && message.network == host::own_network_namespace() ? message.interface : 0;
}

Result<std::vector<ListedDevice>> list_devices(const std::string& path) {
  const Result<Descriptor> socket = connect_to(path);
  if (!socket) return socket.error();
  const ControlSocket control(socket->get());
  if (Status status = control.send({.type = MessageType::kList, .version = host::kControlVersion}); !status)
    return unanswered(path, status.error());
  std::vector<ListedDevice> devices;
  const Deadline deadline = deadline_in(kAnswerMs);
  for (;;) {
    const Result<host::Datagram> answer = control.wait(deadline);
    if (!answer) return unanswered(path, answer.error());
    if (answer->message.type == MessageType::kDevice && devices.size() < kDevicesMax) {
      devices.push_back({.device = answer->message, .addresses = {}});
      continue;
    }
    if (answer->message.type == MessageType::kAddressAdded && !devices.empty() &&
        devices.back().addresses.size() < host::kAddressesMax) {
      devices.back().addresses.push_back(answer->message.address);
      continue;
    }
    if (Status status = check(answer->message, MessageType::kDone); !status)
      return unanswered(path, status.error());
    return devices;
  }
}

Result<uint64_t> find_user(const std::string& path, const Gid& address, QpNumber number) {
  const Result<Descriptor> socket = connect_to(path);
  if (!socket) return socket.error();
  const ControlSocket control(socket->get());
  const Status sent = control.send({.type = MessageType::kWhose,
                                    .version = host::kControlVersion,
                                    .number = number.value,
                                    .address = address});
  if (!sent) return unanswered(path, sent.error());
  const Result<host::Datagram> answer = control.wait(deadline_in(kAnswerMs));
  if (!answer) return unanswered(path, answer.error());
  if (Status status = check(answer->message, MessageType::kOwner); !status)
    return unanswered(path, status.error());
  return answer->message.id;
}

}  // namespace uroce::drivers
