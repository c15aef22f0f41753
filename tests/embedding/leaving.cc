// A program may leave in any way, with devices open and transfers under way.
#include <pthread.h>

#include <atomic>
#include <cstdlib>
#include <thread>

#include "guest.h"

namespace uroce::embedding {
namespace {

constexpr int kStatus = 42;

Connection* kept = nullptr;

void begin() {
  kept = new Connection;
  kept->exchange();
  kept->leave_work_behind();
}

void poll_for_ever() {
  ibv_wc completion{};
  while (ibv_poll_cq(kept->cq(0), 1, &completion) >= 0) (void)kept->post();
}

int by_return() {
  begin();
  return kStatus;
}

int by_exit() {
  begin();
  std::exit(kStatus);
}

int by_immediate_exit() {
  begin();
  _exit(kStatus);
}

int by_quick_exit() {
  begin();
  std::quick_exit(kStatus);
}

int by_exit_on_another_thread() {
  begin();
  std::thread([] { std::exit(kStatus); }).join();
  return 1;
}

int by_exit_while_another_thread_polls() {
  begin();
  std::atomic<bool> polling{false};
  std::thread([&] {
    polling = true;
    poll_for_ever();
  }).detach();
  while (!polling) std::this_thread::yield();
  std::exit(kStatus);
}

int by_the_end_of_another_thread() {
  begin();
  std::thread([] {
    ibv_wc completion{};
    for (int left = 16; left > 0;) left -= ibv_poll_cq(kept->cq(0), 1, &completion);
    kept->leave_work_behind();
    std::exit(kStatus);
  }).detach();
  pthread_exit(nullptr);
}

int after_closing() {
  Connection connection;
  connection.exchange();
  connection.close();
  return kStatus;
}

/// An exit handler that was registered before the device was opened runs after our own end.
int with_a_handler_that_still_uses_the_device() {
  std::atexit([] {
    ibv_wc completion{};
    (void)ibv_poll_cq(kept->cq(0), 1, &completion);
    (void)kept->post();
    (void)ibv_close_device(kept->context(0));
  });
  begin();
  return kStatus;
}

}  // namespace

std::vector<Scenario> leaving_scenarios() {
  return {{"leaving-by-return", by_return},
          {"leaving-by-exit", by_exit},
          {"leaving-by-immediate-exit", by_immediate_exit},
          {"leaving-by-quick-exit", by_quick_exit},
          {"leaving-by-exit-on-another-thread", by_exit_on_another_thread},
          {"leaving-by-exit-while-another-thread-polls", by_exit_while_another_thread_polls},
          {"leaving-by-exit-after-the-first-thread-ended", by_the_end_of_another_thread},
          {"leaving-after-closing", after_closing},
          {"leaving-with-a-handler-that-still-uses-the-device", with_a_handler_that_still_uses_the_device}};
}

}  // namespace uroce::embedding
