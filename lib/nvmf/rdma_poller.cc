#include "nvmf/rdma_poller.h"

#include <poll.h>
#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <array>

namespace uroce::nvmf {
namespace {

constexpr size_t kCompletionsOfTurn = 64;
/// The target's own clocks (keep alive, news of namespaces) go on while a poller sleeps.
constexpr int kSleepMaxMs = 20;
/// The answer to a host that has one command under way comes within this time: it is not worth a system call.
constexpr Duration kSpin = microseconds(20);

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
    : target_(target), clock_(options.clock), idle_(microseconds(options.idle_us)), reports_(reports) {
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
  worked_at_ = clock_();
  while (!stopping_.load(std::memory_order_relaxed)) {
    const Instant now = clock_();
    if (turn(now)) {
      worked_at_ = now;
    } else {
      rest(now);
    }
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
  for (const Message& message : mailbox_.take()) {
    switch (message.kind) {
      case Message::Kind::kShare:
        shares_.push_back(message.share);
        break;
      case Message::Kind::kQueue:
        message.queue->start(target_);
        queues_.push_back({message.queue});
        break;
      case Message::Kind::kBroken:
        message.queue->broken(message.connected, now);
        break;
      case Message::Kind::kLastReceive:
        message.queue->last_receive();
        break;
    }
  }
}

bool RdmaPoller::poll(RdmaShare& share, Instant now) {
  std::array<ibv_wc, kCompletionsOfTurn> completions;
  const int count = ibv_poll_cq(&share.completions(), kCompletionsOfTurn, completions.data());
  for (int i = 0; i < count; ++i) complete(share, completions[static_cast<size_t>(i)], now);
  share.found_empty(count < static_cast<int>(kCompletionsOfTurn));
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
    case RdmaWork::kDrain:
      return owner_of<RdmaQueue>(completion.wr_id).sends_drained();
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
    worked |= turned.queue->turn(now);
    if (turned.queue->is_broken() && turned.queue->try_retire()) {
      reports_.push({RdmaReport::Kind::kRetired, turned.queue});
      turned = queues_.back();
      queues_.pop_back();
      worked = true;
      continue;
    }
    report(turned);
    ++i;
  }
  return worked;
}

void RdmaPoller::report(Turned& turned) {
  if (turned.end_reported || turned.queue->is_broken() || !turned.queue->wants_end()) return;
  turned.end_reported = true;
  reports_.push({RdmaReport::Kind::kWantsEnd, turned.queue});
}

void RdmaPoller::rest(Instant now) {
  if (now - worked_at_ < kSpin) return;
  const bool executes = std::ranges::any_of(queues_, [](const Turned& one) { return one.queue->executes(); });
  if (executes || now - worked_at_ < idle_) {
    sched_yield();
  } else {
    sleep();
  }
}

void RdmaPoller::sleep() {
  std::vector<pollfd> waiting{{.fd = mailbox_.fd(), .events = POLLIN, .revents = 0}};
  for (RdmaShare* share : shares_) {
    ibv_req_notify_cq(&share->completions(), 0);
    waiting.push_back({.fd = share->channel().fd, .events = POLLIN, .revents = 0});
  }
  // What came before the request to be told is not told.
  if (turn(clock_())) {
    worked_at_ = clock_();
    return;
  }
  ::poll(waiting.data(), waiting.size(), kSleepMaxMs);
  for (RdmaShare* share : shares_) {
    ibv_cq* queue = nullptr;
    void* context = nullptr;
    while (ibv_get_cq_event(&share->channel(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
  }
}

}  // namespace uroce::nvmf
