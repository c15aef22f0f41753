#include "unused_victim.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

#include "engine/device/stack.h"
#include "engine/poller/poller_qp.h"
#include "far_end.h"
#include "tests/unit/engine/bring_up.h"
#include "tests/unit/engine/connected_pair.h"

namespace uroce::engine {
namespace {

constexpr uint32_t kQkey = 0x11111111;
constexpr uint32_t kReceiveBytes = 1000;
constexpr uint64_t kFramesAtOnce = 16;

class UnusedVictim {
 public:
  UnusedVictim(const std::string& port, const std::string& far_port, size_t count)
      : stack_(value_of(Stack::create(victim_at(port)))), device_(value_of(stack_->open(0))), far_(far_port) {
    completions_ = device_->create_completion_queue({.depth = static_cast<uint32_t>(count)});
    require(completions_ != nullptr, "no completion queue");
    for (size_t i = 0; i < count; ++i) make(std::array{qp::Type::kRc, qp::Type::kUc, qp::Type::kUd}[i % 3]);
    poll_until([&] { return device_->link_up() && far_.is_up(); }, "the link does not come up");
  }
  ~UnusedVictim() {
    for (QpSlot* const queue_pair : queue_pairs_) device_->destroy_queue_pair(*queue_pair);
    device_->retire_completion_queue(*completions_);
  }
  UnusedVictim(const UnusedVictim&) = delete;
  UnusedVictim& operator=(const UnusedVictim&) = delete;

  void say_numbers() const {
    std::printf("queue pairs");
    for (const QpSlot* const queue_pair : queue_pairs_) std::printf(" %u", queue_pair->number.value);
    std::printf("\n");
  }
  void send(const std::vector<std::byte>& frame) {
    poll_until([&] { return far_.send(frame); }, "the link takes no frame");
    if (++sent_ % kFramesAtOnce == 0) receive_all();
  }
  void say_what_there_is() {
    receive_all();
    const auto is_used = [](const QpSlot* queue_pair) {
      return static_cast<const PollerQp*>(queue_pair)->queue_pair.place() != nullptr;
    };
    std::printf("used %zu received %zu answers %zu",
                static_cast<size_t>(std::ranges::count_if(queue_pairs_, is_used)), received_, answers_);
    say_counters(*device_);
  }

 private:
  void make(qp::Type type) {
    queue_pairs_.push_back(value_of(device_->create_queue_pair({.type = type,
                                                                .domain = owner_.domain(),
                                                                .send_depth = 1,
                                                                .receive_depth = 1,
                                                                .send_completions = completions_.get(),
                                                                .receive_completions = completions_.get()})));
    QpSlot& made = *queue_pairs_.back();
    const FarPeer peer{kStranger, QpNumber{0x66}, kFirstPsn, kQkey};
    require(bring_up(*device_, made, type, peer) == 0, "no connection");
    queue::ReceiveRequest& request = *made.receive_queue.reserve();
    request.length = kReceiveBytes;
    request.segments = 1;
    made.receive_queue.segments(request)[0] = {owner_.address(), kReceiveBytes, owner_.lkey()};
    made.receive_queue.publish();
  }
  void poll_until(const std::function<bool()>& holds, const char* otherwise) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (!holds()) {
      require(std::chrono::steady_clock::now() < end, otherwise);
      poll();
    }
  }
  void poll() {
    device_->turn_for(*completions_);
    queue::Completion completion;
    while (completions_->poll({&completion, 1}) == 1) {
      require(completion.status == queue::CompletionStatus::kSuccess, "a message failed");
      ++received_;
    }
    answers_ += far_.drop_answers();
  }
  void receive_all() {
    poll_until([&] { return device_->counter(Counter::kRxFrames) >= sent_; }, "frames are lost");
    poll();
  }

  const std::unique_ptr<Stack> stack_;
  const std::shared_ptr<Device> device_;
  FarEnd far_;
  Side owner_{device_, kReceiveBytes};  // of domain and memory
  std::unique_ptr<queue::CompletionQueue> completions_;
  std::vector<QpSlot*> queue_pairs_;
  uint64_t sent_ = 0;
  size_t received_ = 0;
  size_t answers_ = 0;
};

}  // namespace

void run_unused(const std::string& port, const std::string& far_port, size_t count) {
  UnusedVictim victim(port, far_port, count);
  victim.say_numbers();
  std::fflush(stdout);
  for (std::vector<std::byte> frame; read_frame(frame);) {
    if (!frame.empty()) {
      victim.send(frame);
      continue;
    }
    victim.say_what_there_is();
    std::fflush(stdout);
  }
}

}  // namespace uroce::engine
