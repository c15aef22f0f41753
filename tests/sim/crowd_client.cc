#include "tests/sim/crowd_client.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kAnswerBytes = sizeof(uint32_t);
constexpr uint32_t kQkey = 0x1234567;
constexpr Duration kQuiet = milliseconds(5);

}  // namespace

CrowdClient::CrowdClient(Host& host, uint32_t messages, uint64_t seed)
    : host_(host),
      messages_(messages),
      random_(seed),
      domain_(host.device().allocate_domain().value()),
      completions_(host.device().create_completion_queue({.depth = 4096})) {}

engine::QpSlot& CrowdClient::add_queue_pair(qp::Type type) {
  auto made = host_.device().create_queue_pair({.type = type,
                                                .domain = domain_,
                                                .signal_all = true,
                                                .send_depth = kDepth,
                                                .receive_depth = kDepth,
                                                .send_completions = completions_.get(),
                                                .receive_completions = completions_.get()});
  return *queue_pairs_.emplace_back(made.value());
}

void CrowdClient::add(const Member& member, const std::optional<qp::DatagramAddress>& address) {
  auto sender = std::make_unique<Sender>();
  sender->member = member;
  sender->address = address;
  sender->queue_pair = queue_pairs_.back();
  sender->memory = std::make_unique<RegisteredMemory>(host_.device(), domain_,
                                                      size_t{kDepth} * (member.bytes_max + kAnswerBytes));
  if (qp::is_reliable(member.type)) {
    for (uint32_t i = 0; i < kDepth; ++i) post_receive(*sender);
  }
  senders_.push_back(std::move(sender));
}

void CrowdClient::act() {
  poll();
  for (const auto& sender : senders_) {
    for (uint64_t burst = random_.below(5); burst > 0; --burst) post(*sender);
  }
}

void CrowdClient::post(Sender& sender) {
  if (sender.posted == messages_ || sender.posted - sender.sent == kDepth) return;
  // What is not answered yet has a receive.
  if (qp::is_reliable(sender.member.type) && sender.posted - sender.answered == kDepth) return;
  const std::vector<std::byte> message = message_of(sender.member, sender.posted);
  const size_t place = size_t{sender.posted % kDepth} * sender.member.bytes_max;
  std::ranges::copy(message, sender.memory->bytes(place, message.size()).begin());
  queue::SendQueue& sends = sender.queue_pair->send_queue;
  queue::SendRequest& request = *sends.reserve();
  request = {};
  request.operation = queue::SendOperation::kSendImm;
  request.wr_id = sender.posted;
  request.immediate = sender.posted;
  request.length = static_cast<uint32_t>(message.size());
  request.segments = 1;
  sends.segments(request)[0] = sender.memory->segment(place, message.size());
  if (sender.address)
    sends.attach(request, qp::address_to(*sender.address, wire::SourcePorts::kFlowLabel, 0,
                                         sender.member.client, sender.member.server, kQkey));
  ++sender.posted;
  sends.publish();
  host_.ring_doorbell(*sender.queue_pair);
}

void CrowdClient::post_receive(Sender& sender) {
  queue::ReceiveQueue& receives = sender.queue_pair->receive_queue;
  const uint32_t number = sender.receives_posted++;
  const size_t place = size_t{kDepth} * sender.member.bytes_max + number % kDepth * kAnswerBytes;
  queue::ReceiveRequest& request = *receives.reserve();
  request = {.wr_id = number, .length = kAnswerBytes, .segments = 1};
  receives.segments(request)[0] = sender.memory->segment(place, kAnswerBytes);
  receives.publish();
}

void CrowdClient::poll() {
  std::array<queue::Completion, 16> found;
  const size_t count = host_.poll(*completions_, found);
  for (const queue::Completion& completion : std::span(found).first(count)) completed(completion);
  if (count > 0) last_event_ = VirtualClock::now();
}

void CrowdClient::completed(const queue::Completion& completion) {
  const auto its = std::ranges::find_if(
      senders_, [&](const auto& sender) { return sender->member.client == completion.local; });
  if (its == senders_.end()) return fail("a completion of no sender's queue pair");
  Sender& sender = **its;
  if (completion.status != queue::CompletionStatus::kSuccess)
    return fail("something of a client failed with status " +
                std::to_string(static_cast<int>(completion.status)));
  if (!is_receive(completion.opcode)) {
    if (completion.wr_id != sender.sent) return fail("sends of a client complete out of order");
    ++sender.sent;
    ++completed_;
    return;
  }
  uint32_t number = 0;
  const size_t place = size_t{kDepth} * sender.member.bytes_max + sender.answered % kDepth * kAnswerBytes;
  std::memcpy(&number, sender.memory->bytes(place, kAnswerBytes).data(), kAnswerBytes);
  if (completion.wr_id != sender.answered || completion.bytes != kAnswerBytes || number != sender.answered)
    return fail("an answer to something else");
  ++sender.answered;
  post_receive(sender);
}

bool CrowdClient::idle() const {
  return VirtualClock::now() - last_event_ > kQuiet && std::ranges::all_of(senders_, [&](const auto& sender) {
           return sender->sent == messages_ &&
                  (!qp::is_reliable(sender->member.type) || sender->answered == messages_);
         });
}

std::string CrowdClient::close() {
  engine::Device& device = host_.device();
  for (engine::QpSlot* queue_pair : queue_pairs_) device.destroy_queue_pair(*queue_pair);
  device.retire_completion_queue(*completions_);
  std::string wrong;
  for (const auto& sender : senders_) wrong += sender->memory->close();
  device.free_domain(domain_);
  return wrong;
}

}  // namespace uroce::sim
