// A thread may be cancelled wherever it is.
#include <pthread.h>

#include <atomic>

#include "guest.h"

namespace uroce::embedding {
namespace {

/// Runs `body` in a thread that has been cancelled before it begins: at the first cancellation point of a
/// system call that anything in it makes, the thread would end. It must get through.
template <typename Body>
void run_cancelled(Body body) {
  struct Run {
    Body& body;
    std::atomic<bool> done{false};
  } run{body};
  pthread_t thread{};
  const auto main = [](void* argument) -> void* {
    auto& the = *static_cast<Run*>(argument);
    pthread_cancel(pthread_self());
    the.body();
    the.done = true;
    pthread_testcancel();
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, nullptr, main, &run) == 0);
  void* end = nullptr;
  REQUIRE(pthread_join(thread, &end) == 0);
  REQUIRE(run.done);
  REQUIRE(end == PTHREAD_CANCELED);  // the program's choice of state stays
}

/// Posting, polling, and the event of the completion, which a turn writes to a pipe.
int in_the_middle_of_a_turn() {
  Connection connection;
  connection.exchange();
  for (int i = 0; i < 20; ++i) {
    REQUIRE(ibv_req_notify_cq(connection.cq(0), 0) == 0);
    run_cancelled([&] { connection.exchange(); });
    connection.exchange();
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    REQUIRE(ibv_get_cq_event(connection.channel(0), &cq, &context) == 0);
    ibv_ack_cq_events(cq, 1);
  }
  connection.close();
  return 0;
}

/// Opening, creating, connecting, destroying and closing.
int in_the_middle_of_control_calls() {
  run_cancelled([] {
    Connection connection;
    connection.exchange();
    connection.close();
  });
  Connection connection;
  connection.exchange();
  connection.close();
  return 0;
}

/// A thread that waits for events can be got rid of, and the channel goes on.
int a_wait_for_events() {
  Connection connection;
  connection.exchange();
  pthread_t thread{};
  const auto wait = [](void* argument) -> void* {
    ibv_cq* cq = nullptr;
    void* context = nullptr;
    (void)ibv_get_cq_event(static_cast<ibv_comp_channel*>(argument), &cq, &context);
    return nullptr;
  };
  REQUIRE(pthread_create(&thread, nullptr, wait, connection.channel(0)) == 0);
  REQUIRE(pthread_cancel(thread) == 0);
  void* end = nullptr;
  REQUIRE(pthread_join(thread, &end) == 0);
  REQUIRE(end == PTHREAD_CANCELED);
  REQUIRE(ibv_req_notify_cq(connection.cq(0), 0) == 0);
  connection.exchange();
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  REQUIRE(ibv_get_cq_event(connection.channel(0), &cq, &context) == 0);
  ibv_ack_cq_events(cq, 1);
  connection.close();
  return 0;
}

}  // namespace

std::vector<Scenario> cancelling_scenarios() {
  return {{"cancelling-in-the-middle-of-a-turn", in_the_middle_of_a_turn},
          {"cancelling-in-the-middle-of-control-calls", in_the_middle_of_control_calls},
          {"cancelling-a-wait-for-events", a_wait_for_events}};
}

}  // namespace uroce::embedding
