#include "tests/sim/crowd_server.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace uroce::sim {

namespace {

constexpr uint32_t kMembersMax = 64;
constexpr uint32_t kAnswerBytes = sizeof(uint32_t);
constexpr uint64_t kReceiveMark = 1ull << 32;  // in work request ids

}  // namespace

CrowdServer::CrowdServer(Host& host, uint32_t bytes_max, bool in_order, uint64_t seed)
    : host_(host),
      slot_bytes_(bytes_max + kHeaderBytes),
      in_order_(in_order),
      random_(seed),
      domain_(host.device().allocate_domain().value()),
      completions_(host.device().create_completion_queue({.depth = 4096})),
      receives_(std::move(
          host.device()
              .create_shared_receives(
                  {.domain = domain_, .queue = {.depth = kSlots, .segments_max = 1, .listener = this}})
              .value())),
      memory_(host.device(), domain_, size_t{kSlots} * slot_bytes_),
      answers_(host.device(), domain_, size_t{kMembersMax} * kAnswersMax * kAnswerBytes),
      posted_(kSlots) {}

engine::QpSlot& CrowdServer::add_queue_pair(qp::Type type) {
  auto made = host_.device().create_queue_pair({.type = type,
                                                .domain = domain_,
                                                .signal_all = true,
                                                .send_depth = kAnswersMax,
                                                .receive_depth = 1,
                                                .send_completions = completions_.get(),
                                                .receive_completions = completions_.get(),
                                                .shared_receives = receives_.get()});
  return *queue_pairs_.emplace_back(made.value());
}

void CrowdServer::add(const Member& member) {
  const auto its = std::find_if(queue_pairs_.begin(), queue_pairs_.end(),
                                [&](const auto* queue_pair) { return queue_pair->number == member.server; });
  served_.push_back({.member = member, .queue_pair = *its, .next = 0, .to_answer = {}});
}

void CrowdServer::act() {
  poll();
  post_receives();
  for (Served& served : served_) answer(served);
}

/// Now and then, some of those that are free: sometimes there are none, and sometimes many.
void CrowdServer::post_receives() {
  if (random_.chance(1, 3)) return;
  queue::SharedReceiveQueue& queue = receives_->queue;
  queue.set_limit(kLimit);
  for (uint32_t slot = 0; slot < kSlots; ++slot) {
    if (posted_[slot] || random_.chance(1, 4)) continue;
    queue::ReceiveRequest* const request = queue.reserve();
    if (request == nullptr) return fail("a shared receive queue that is full too early");
    *request = {.wr_id = kReceiveMark | slot, .length = slot_bytes_, .segments = 1};
    queue.segments(*request)[0] = memory_.segment(size_t{slot} * slot_bytes_, slot_bytes_);
    queue.publish(*request);
    posted_[slot] = true;
  }
}

void CrowdServer::poll() {
  std::array<queue::Completion, 16> found;
  for (const queue::Completion& completion : std::span(found).first(host_.poll(*completions_, found))) {
    if (completion.status != queue::CompletionStatus::kSuccess) {
      fail("something of the server failed with status " +
           std::to_string(static_cast<int>(completion.status)));
    } else if ((completion.wr_id & kReceiveMark) != 0) {
      received(completion);
    } else {
      answered(completion);
    }
  }
}

void CrowdServer::received(const queue::Completion& completion) {
  const auto slot = static_cast<uint32_t>(completion.wr_id);
  if (!is_receive(completion.opcode)) return fail("a receive that says it is none");
  if (slot >= kSlots || !posted_[slot]) return fail("a receive that completes twice");
  posted_[slot] = false;
  const uint32_t header = completion.has_grh ? kHeaderBytes : 0;
  if (completion.bytes < header + sizeof(MessageHead) || completion.bytes > slot_bytes_)
    return fail("a message of no length that was sent");
  const auto message = memory_.bytes(size_t{slot} * slot_bytes_ + header, completion.bytes - header);
  MessageHead head;
  std::memcpy(&head, message.data(), sizeof(head));
  if (head.member >= served_.size()) return fail("a message of no member");
  ++received_;
  if (std::string wrong = check(completion, served_[head.member], message); !wrong.empty()) fail(wrong);
}

std::string CrowdServer::check(const queue::Completion& completion, Served& served,
                               std::span<const std::byte> message) {
  const Member& member = served.member;
  MessageHead head;
  std::memcpy(&head, message.data(), sizeof(head));
  if (completion.local != member.server || completion.remote != member.client)
    return "a message from another queue pair";
  if (completion.has_grh != (member.type == qp::Type::kUd)) return "a header where there is none";
  if (!completion.has_immediate || completion.immediate != head.number)
    return "a message with another's immediate";
  if (!std::ranges::equal(message, message_of(member, head.number))) return "a message that is not whole";
  if (qp::is_reliable(member.type)) {
    if (head.number != served.next) return "a reliable message that is lost, doubled or out of order";
    served.to_answer.push_back(head.number);
  } else if (in_order_ && member.type == qp::Type::kUc && head.number < served.next) {
    return "messages out of order";
  }
  served.next = head.number + 1;
  return {};
}

void CrowdServer::answered(const queue::Completion& completion) {
  if (completion.wr_id >= served_.size()) return fail("an answer that was not posted");
  Served& served = served_[completion.wr_id];
  if (completion.local != served.member.server) return fail("an answer of another queue pair");
  if (served.answers_sent == served.answers_posted) return fail("an answer that completes twice");
  ++served.answers_sent;
}

void CrowdServer::answer(Served& served) {
  if (served.to_answer.empty() || random_.chance(1, 3)) return;
  queue::SendQueue& sends = served.queue_pair->send_queue;
  while (!served.to_answer.empty() && served.answers_posted - served.answers_sent < kAnswersMax) {
    const size_t place =
        (size_t{served.member.index} * kAnswersMax + served.answers_posted % kAnswersMax) * kAnswerBytes;
    std::memcpy(answers_.bytes(place, kAnswerBytes).data(), &served.to_answer.front(), kAnswerBytes);
    queue::SendRequest& request = *sends.reserve();
    request = {};
    request.wr_id = served.member.index;
    request.length = kAnswerBytes;
    request.segments = 1;
    sends.segments(request)[0] = answers_.segment(place, kAnswerBytes);
    served.to_answer.pop_front();
    ++served.answers_posted;
  }
  sends.publish();
  host_.ring_doorbell(*served.queue_pair);
}

bool CrowdServer::idle() const {
  return std::ranges::all_of(served_, [](const Served& served) {
    return served.to_answer.empty() && served.answers_sent == served.answers_posted;
  });
}

std::string CrowdServer::close() {
  engine::Device& device = host_.device();
  for (engine::QpSlot* queue_pair : queue_pairs_) device.destroy_queue_pair(*queue_pair);
  device.retire_completion_queue(*completions_);
  device.destroy_shared_receives(std::move(receives_));
  std::string wrong = memory_.close() + answers_.close();
  device.free_domain(domain_);
  return wrong;
}

}  // namespace uroce::sim
