#include "tests/sim/unanswered_traffic.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "tests/sim/virtual_clock.h"

namespace uroce::sim {

namespace {

constexpr uint32_t kIpHeaderBytes = 40;
constexpr uint32_t kQkey = 0x1234567;
constexpr Duration kQuiet = milliseconds(5);

mem::RegionKeys registered(Endpoint& endpoint, std::vector<std::byte>& memory) {
  mem::UserRegion region{.domain = endpoint.domain,
                         .address = memory.data(),
                         .length = memory.size(),
                         .iova = reinterpret_cast<uintptr_t>(memory.data())};
  region.access = mem::kLocalWrite;
  return endpoint.host.device().regions().register_user(region).value();
}

queue::Segment segment_of(std::span<const std::byte> bytes, const mem::RegionKeys& keys) {
  return {reinterpret_cast<uintptr_t>(bytes.data()), static_cast<uint32_t>(bytes.size()), keys.lkey};
}

}  // namespace

UnansweredTraffic::UnansweredTraffic(Endpoint& from, Endpoint& to, const Options& options)
    : from_(from),
      to_(to),
      options_(options),
      header_bytes_(options.to ? kIpHeaderBytes : 0),
      slot_bytes_(options.bytes_max + header_bytes_),
      random_(options.seed),
      source_(size_t{kDepth} * slot_bytes_),
      target_(size_t{kDepth} * slot_bytes_),
      source_keys_(registered(from, source_)),
      target_keys_(registered(to, target_)) {
  for (uint32_t i = 0; i < kDepth; ++i) post_receive(i);
}

std::string UnansweredTraffic::close() {
  for (Endpoint* endpoint : {&from_, &to_}) endpoint->modify({}, qp::kMaskState);
  for (const auto& [endpoint, keys] : {std::pair{&from_, source_keys_}, std::pair{&to_, target_keys_}}) {
    if (const Status ended = endpoint->host.device().regions().deregister(keys.lkey); !ended)
      return ended.error().message;
  }
  return {};
}

void UnansweredTraffic::act() {
  if (!failure_.empty()) return;
  poll_sends();
  poll_receives();
  const auto burst = static_cast<uint32_t>(random_.below(6));
  for (uint32_t i = 0; i < burst && posted_ < options_.messages && posted_ - sent_ < kDepth; ++i) post();
}

bool UnansweredTraffic::done() const {
  if (!failure_.empty()) return true;
  return sent_ == options_.messages && VirtualClock::now() - last_event_ > kQuiet;
}

std::vector<std::byte> UnansweredTraffic::message(uint32_t number) const {
  Random random(options_.seed ^ (uint64_t{number} << 20));
  Head head{.number = number};
  head.bytes = static_cast<uint32_t>(sizeof(Head) + random.below(options_.bytes_max - sizeof(Head) + 1));
  std::vector<std::byte> bytes(head.bytes);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next());
  std::memcpy(bytes.data(), &head, sizeof(head));
  return bytes;
}

void UnansweredTraffic::post() {
  const std::vector<std::byte> bytes = message(posted_);
  const std::span<std::byte> place = slot(source_, posted_ % kDepth);
  std::ranges::copy(bytes, place.begin());
  queue::SendQueue& sends = from_.sends();
  queue::SendRequest& request = *sends.reserve();
  request.wr_id = posted_;
  request.operation = queue::SendOperation::kSendImm;
  request.immediate = posted_;
  request.signaled = true;
  request.length = static_cast<uint32_t>(bytes.size());
  request.segments = 1;
  sends.segments(request)[0] = segment_of(place.first(bytes.size()), source_keys_);
  if (options_.to)
    sends.attach(request, qp::address_to(*options_.to, wire::SourcePorts::kFlowLabel, 0, from_.number(),
                                         to_.number(), kQkey));
  ++posted_;
  from_.publish_sends();
}

void UnansweredTraffic::post_receive(uint32_t index) {
  queue::ReceiveQueue& receives = to_.receives();
  queue::ReceiveRequest& request = *receives.reserve();
  request.wr_id = index;
  request.length = slot_bytes_;
  request.segments = 1;
  receives.segments(request)[0] = segment_of(slot(target_, index), target_keys_);
  to_.publish_receives();
}

void UnansweredTraffic::poll_sends() {
  std::array<queue::Completion, 8> completions;
  const size_t count = from_.poll_sends(completions);
  for (const queue::Completion& completion : std::span(completions).first(count)) {
    if (completion.status != queue::CompletionStatus::kSuccess) failure_ = "a send without answer failed";
    if (completion.wr_id != sent_) failure_ = "sends without answer completed out of order";
    ++sent_;
  }
  if (count > 0) last_event_ = VirtualClock::now();
}

void UnansweredTraffic::poll_receives() {
  std::array<queue::Completion, 8> completions;
  const size_t count = to_.poll_receives(completions);
  for (const queue::Completion& completion : std::span(completions).first(count)) {
    const auto index = static_cast<uint32_t>(completion.wr_id);
    if (completion.status != queue::CompletionStatus::kSuccess) {
      failure_ = "a receive without answer failed";
    } else if (completion.bytes < header_bytes_ + sizeof(Head) || completion.bytes > slot_bytes_) {
      failure_ = "a message without answer of no length that was sent";
    } else if (std::string wrong = check(
                   slot(target_, index).subspan(header_bytes_, completion.bytes - header_bytes_), completion);
               !wrong.empty()) {
      failure_ = wrong;
    }
    if (!failure_.empty()) return;
    ++received_;
    post_receive(index);
  }
  if (count > 0) last_event_ = VirtualClock::now();
}

std::string UnansweredTraffic::check(std::span<const std::byte> got, const queue::Completion& completion) {
  Head head;
  std::memcpy(&head, got.data(), sizeof(head));
  if (head.number >= posted_) return "a message without answer that was not sent";
  if (!std::ranges::equal(got, message(head.number))) return "a message without answer is not whole";
  if (completion.immediate != head.number) return "a message without answer with another's immediate data";
  if (options_.to && (!completion.has_grh || completion.remote != from_.number()))
    return "a datagram without its sender";
  if (options_.in_order && head.number < next_number_) return "messages without answer out of order";
  next_number_ = head.number + 1;
  return {};
}

namespace {

void bring_up(Endpoint& endpoint, qp::Attributes attributes, bool datagrams) {
  using namespace qp;
  attributes.state = State::kInit;
  endpoint.modify(attributes,
                  kMaskState | kMaskPkeyIndex | kMaskPort | (datagrams ? kMaskQkey : kMaskAccessFlags));
  attributes.state = State::kRtr;
  endpoint.modify(attributes, kMaskState | (datagrams ? AttributeMask{}
                                                      : kMaskAv | kMaskPathMtu | kMaskDestQpn | kMaskRqPsn));
  attributes.state = State::kRts;
  endpoint.modify(attributes, kMaskState | kMaskSqPsn);
}

}  // namespace

std::optional<qp::DatagramAddress> connect_unanswered(Endpoint& a, Endpoint& b,
                                                      const ConnectionOptions& options) {
  qp::Attributes attributes;
  attributes.path_mtu = options.path_mtu;
  attributes.qkey = kQkey;
  const bool datagrams = a.type == qp::Type::kUd;
  const Gid gid_a = a.host.device().gids().at(options.gid);
  const Gid gid_b = b.host.device().gids().at(options.gid);
  attributes.path.source = gid_b;
  attributes.path.destination = gid_a;
  attributes.destination = a.number();
  attributes.sq_psn = options.psn_b;
  attributes.rq_psn = options.psn_a;
  bring_up(b, attributes, datagrams);
  attributes.path.source = gid_a;
  attributes.path.destination = gid_b;
  attributes.destination = b.number();
  attributes.sq_psn = options.psn_a;
  attributes.rq_psn = options.psn_b;
  bring_up(a, attributes, datagrams);
  if (!datagrams) return std::nullopt;
  const Result<qp::DatagramAddress> address = a.host.device().take_address(attributes.path);
  if (!address) throw std::runtime_error(address.error().message);
  a.host.device().give_back_address();
  return *address;
}

}  // namespace uroce::sim
