// An idle poller sleeps on the completion channel (IdlePolicy::serves). The target's own clocks (keep alive,
// news of namespaces) go on meanwhile, because no sleep is long. Cost: the first command waits for a wake-up.
#include "nvmf/rdma/poller.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <utility>

namespace uroce::nvmf {
namespace {

constexpr size_t kCompletionsOfTurn = 64;

void stay_on(uint32_t core) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  CPU_SET(core, &cores);
  // A core that is not there was refused with the configuration; one that was taken away since is not worth
  // an end.
  pthread_setaffinity_np(pthread_self(), sizeof(cores), &cores);
}

}  // namespace

RdmaPoller::RdmaPoller(Target& target, const RdmaOptions& options, std::optional<uint32_t> core,
                       RdmaMailbox<RdmaReport>& reports)
    : target_(target),
      clock_(options.clock),
      idle_policy_(IdlePolicy::serves(microseconds(options.idle_us))),
      reports_(reports) {
  if (!options.own_threads) return;
  thread_ = std::thread([this, core] {
    if (core) stay_on(*core);
    run();
  });
}

RdmaPoller::~RdmaPoller() {
  stopping_.store(true);
  mailbox_.wake();
  if (thread_.joinable()) thread_.join();
}

bool RdmaPoller::turn() { return turn(clock_()); }

void RdmaPoller::run() {
  using Action = IdlePolicy::Action;
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_();
    const bool worked = turn(now);
    const auto [action, duration] =
        idle_policy_.after({.now = now, .worked = worked, .pending = !worked && executes()});
    if (action == Action::kYield) sched_yield();
    if (action == Action::kPark) sleep(duration);
  }
}

bool RdmaPoller::turn(Instant now) {
  bool worked = false;
  if (mailbox_.has_any()) {
    take_messages(now);
    worked = true;
  }
  for (RdmaShare* share : shares_) {
    worked |= poll(*share, now);
    serve_waiting(*share, now);
  }
  return turn_queues(now) || worked;
}

void RdmaPoller::take_messages(Instant now) {
  for (Message& message : mailbox_.take()) handle(message, now);
}

void RdmaPoller::handle(Message& message, Instant now) {
  if (message.kind == Message::Kind::kShare) return shares_.push_back(message.share);
  if (message.kind == Message::Kind::kQueue) {
    message.queue->start(target_, clock_);
    queues_.push_back({std::move(message.queue)});
    return;
  }
  RdmaQueue* const queue = find(message.number);
  if (queue == nullptr) return;
  if (message.kind == Message::Kind::kClose) return queue->close(now);
  if (message.kind == Message::Kind::kLastReceive) return queue->last_receive();
  queue->detach();
}

RdmaQueue* RdmaPoller::find(RdmaQueue::Number number) const {
  const auto found =
      std::ranges::find_if(queues_, [&](const Turned& one) { return one.queue->number() == number; });
  return found == queues_.end() ? nullptr : found->queue.get();
}

bool RdmaPoller::poll(RdmaShare& share, Instant now) {
  std::array<ibv_wc, kCompletionsOfTurn> completions;
  const int count = ibv_poll_cq(&share.completions(), kCompletionsOfTurn, completions.data());
  for (int i = 0; i < count; ++i) complete(share, completions[static_cast<size_t>(i)], now);
  share.polled(static_cast<uint32_t>(std::max(count, 0)));
  if (share.receives() != nullptr) share.receives()->flush();
  return count > 0;
}

void RdmaPoller::complete(RdmaShare& share, const ibv_wc& completion, Instant now) {
  const bool successful = completion.status == IBV_WC_SUCCESS;
  switch (work_of(completion.wr_id)) {
    case RdmaWork::kReceive:
      return receive(share, completion, now);
    case RdmaWork::kRead: {
      RdmaSlot& slot = owner_of<RdmaSlot>(completion.wr_id);
      return slot.queue->read_ended(slot, successful, now);
    }
    case RdmaWork::kSend: {
      RdmaSlot& slot = owner_of<RdmaSlot>(completion.wr_id);
      return slot.queue->sent(slot, successful);
    }
  }
}

void RdmaPoller::receive(RdmaShare& share, const ibv_wc& completion, Instant now) {
  RdmaQueue* queue = share.find(completion.qp_num);
  if (queue == nullptr) {
    // The first command overtook the message that its queue is ours.
    take_messages(now);
    queue = share.find(completion.qp_num);
  }
  if (queue != nullptr) return queue->received(completion, now);
  if (share.receives() != nullptr) share.receives()->give_back(share.receives()->taken(completion.wr_id));
}

void RdmaPoller::serve_waiting(RdmaShare& share, Instant now) {
  while (RdmaSlot* slot = share.buffers().next_served()) slot->queue->served(*slot, now);
}

bool RdmaPoller::turn_queues(Instant now) {
  bool worked = false;
  for (size_t i = 0; i < queues_.size();) {
    Turned& turned = queues_[i];
    const RdmaQueue::Phase before = turned.queue->phase();
    worked |= turned.queue->turn(now);
    report(turned, now);
    if (!advance_end(turned, now)) {
      // The next step of an end waits for nothing but the next turn.
      worked |= turned.queue->phase() != before;
      ++i;
      continue;
    }
    const RdmaQueue::Number number = turned.queue->number();
    reports_.push({.kind = RdmaReport::Kind::kRetired, .number = number, .queue = std::move(turned.queue)});
    if (i + 1 != queues_.size()) turned = std::move(queues_.back());
    queues_.pop_back();
    worked = true;
  }
  return worked;
}

void RdmaPoller::report(Turned& turned, Instant now) {
  RdmaQueue& queue = *turned.queue;
  // Also when the queue has been closed since: a host that has connected and left is in the log.
  if (auto outcome = queue.target_queue().take_connect_outcome())
    reports_.push(
        {.kind = RdmaReport::Kind::kConnect, .number = queue.number(), .outcome = std::move(*outcome)});
  if (queue.phase() != RdmaQueue::Phase::kServing) return;
  const auto why = queue.wants_end(now);
  if (!why || std::exchange(turned.end_reported, true)) return;
  reports_.push({.kind = RdmaReport::Kind::kWantsEnd, .number = queue.number(), .why = *why});
}

/// The poller's steps of a queue's end. True: it has come to rest, and is not in use any more.
bool RdmaPoller::advance_end(Turned& turned, Instant now) {
  RdmaQueue& queue = *turned.queue;
  if (queue.phase() == RdmaQueue::Phase::kServing) return false;
  const RdmaQueue::Phase reached = queue.advance_end(now);
  if (reached == RdmaQueue::Phase::kQuiet && !std::exchange(turned.quiet_reported, true))
    reports_.push({.kind = RdmaReport::Kind::kQuiet, .number = queue.number()});
  return reached == RdmaQueue::Phase::kRetired;
}

/// The end of a block device's work wakes no poller that sleeps.
bool RdmaPoller::executes() const {
  return std::ranges::any_of(queues_, [](const Turned& one) { return one.queue->executes(); });
}

void RdmaPoller::sleep(Duration duration) {
  std::vector<pollfd> waiting{{.fd = mailbox_.fd(), .events = POLLIN, .revents = 0}};
  for (RdmaShare* share : shares_) {
    ibv_req_notify_cq(&share->completions(), 0);
    waiting.push_back({.fd = share->channel().fd, .events = POLLIN, .revents = 0});
  }
  // What came before the request to be told is not told.
  if (turn(clock_())) return (void)idle_policy_.after({.now = clock_(), .worked = true});
  ::poll(waiting.data(), waiting.size(), static_cast<int>(duration.ns / milliseconds(1).ns));
  for (RdmaShare* share : shares_) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(&share->channel(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  }
}

}  // namespace uroce::nvmf
