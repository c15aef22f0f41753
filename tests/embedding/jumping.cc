// A signal handler leaves by longjmp, or a thread ends, in the middle of a turn. That the jump happens there
// is not left to chance: a turn tells of a completion event by write(), which is ours here, and jumps as a
// handler would that a signal called at that very place.
#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>

#include <atomic>
#include <chrono>
#include <csetjmp>
#include <thread>
#include <utility>

#include "guest.h"

namespace {

enum class Exit { kNone, kJump, kEnd };
thread_local Exit armed = Exit::kNone;
thread_local sigjmp_buf back;

}  // namespace

extern "C" ssize_t write(int descriptor, const void* bytes, size_t count) {
  switch (std::exchange(armed, Exit::kNone)) {
    case Exit::kJump:
      siglongjmp(back, 1);
    case Exit::kEnd:
      pthread_exit(nullptr);
    case Exit::kNone:
      break;
  }
  return syscall(SYS_write, descriptor, bytes, count);
}

namespace uroce::embedding {
namespace {

using Clock = std::chrono::steady_clock;

/// Posts, and polls until the calling thread leaves a turn. False: another thread made the turn with the
/// event.
bool leave_a_turn(Connection& connection, Exit by) {
  for (size_t end : {0U, 1U}) REQUIRE(ibv_req_notify_cq(connection.cq(end), 0) == 0);
  if (sigsetjmp(back, 0) != 0) return true;
  armed = by;
  REQUIRE(connection.post() == 0);
  ibv_wc completion{};
  while (ibv_poll_cq(connection.cq(0), 1, &completion) == 0) {
  }
  armed = Exit::kNone;
  return false;
}

/// A device says that it is lost. Polls meanwhile, as the program would.
bool is_told(Connection& connection) {
  for (size_t end : {0U, 1U}) {
    const int descriptor = connection.context(end)->async_fd;
    REQUIRE(fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK) == 0);
  }
  ibv_wc completion{};
  for (const auto until = Clock::now() + std::chrono::seconds(20); Clock::now() < until;) {
    for (size_t end : {0U, 1U}) {
      (void)ibv_poll_cq(connection.cq(end), 1, &completion);
      ibv_async_event event{};
      if (ibv_get_async_event(connection.context(end), &event) != 0) continue;
      ibv_ack_async_event(&event);
      if (event.event_type == IBV_EVENT_DEVICE_FATAL) return true;
    }
  }
  return false;
}

/// The thread that jumped goes on: control calls and polls return, and the process ends as usual.
int out_of_a_turn() {
  Connection connection;
  connection.exchange();
  while (!leave_a_turn(connection, Exit::kJump)) connection.exchange();
  REQUIRE(is_told(connection));
  connection.abandon();
  return 0;
}

/// The thread ends; another one goes on.
int by_the_end_of_a_thread() {
  Connection connection;
  connection.exchange();
  for (std::atomic<bool> left{false}; !left;) {
    pthread_t thread{};
    struct Run {
      Connection& connection;
      bool returned = false;
    } run{connection};
    const auto main = [](void* argument) -> void* {
      auto& the = *static_cast<Run*>(argument);
      leave_a_turn(the.connection, Exit::kEnd);
      the.returned = true;
      return nullptr;
    };
    REQUIRE(pthread_create(&thread, nullptr, main, &run) == 0);
    REQUIRE(pthread_join(thread, nullptr) == 0);
    left = !run.returned;
    if (!left) connection.exchange();
  }
  REQUIRE(is_told(connection));
  connection.abandon();
  return 0;
}

}  // namespace

std::vector<Scenario> jumping_scenarios() {
  return {{"jumping-out-of-a-turn", out_of_a_turn},
          {"jumping-by-the-end-of-a-thread", by_the_end_of_a_thread}};
}

}  // namespace uroce::embedding
