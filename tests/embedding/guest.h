#pragma once

#include <infiniband/verbs.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

// A program of the verbs as any other, which watches what becomes of the process that it runs in. Each of its
// scenarios is run in a process of its own (embedding_test.py), over several kinds of ports.
namespace uroce::embedding {

/// Ends the process at once when a promise is broken, whatever state it is in: 1 is no other status.
inline void require(bool kept, const char* what, const char* file, int line) {
  if (kept) return;
  std::fprintf(stderr, "%s:%d: broken: %s\n", file, line, what);
  _exit(1);
}
#define REQUIRE(condition) ::uroce::embedding::require((condition), #condition, __FILE__, __LINE__)

struct Scenario {
  std::string_view name;
  std::function<int()> run;  // returns the exit status
};

/// Both devices of the configuration, opened, and a connection between them.
class Connection {
 public:
  /// Opens; `connected` false stops there.
  explicit Connection(bool connected = true);
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  /// WRITEs a pattern from one end to the other and sees it there.
  void exchange();
  /// Leaves WRITEs under way.
  void leave_work_behind();
  void close();
  /// The same of a device that is lost: the calls return, whatever they say.
  void abandon();

  [[nodiscard]] ibv_context* context(size_t end) const { return ends_[end].context; }
  [[nodiscard]] ibv_comp_channel* channel(size_t end) const { return ends_[end].channel; }
  [[nodiscard]] ibv_cq* cq(size_t end) const { return ends_[end].cq; }
  /// Posts one WRITE from end 0; the return value of ibv_post_send.
  int post();

 private:
  struct End {
    ibv_context* context = nullptr;
    ibv_pd* pd = nullptr;
    ibv_comp_channel* channel = nullptr;
    ibv_cq* cq = nullptr;
    ibv_mr* mr = nullptr;
    ibv_qp* qp = nullptr;
    std::vector<uint8_t> memory = std::vector<uint8_t>(1 << 16);
  };
  static void make(End& end);
  static void connect(End& end, const End& peer);

  std::array<End, 2> ends_;
  uint8_t pattern_ = 0;
};

/// What /proc/self/task says of a thread.
struct ThreadSeen {
  int id;
  std::string name;
  uint64_t blocked_signals;  // bit n - 1 for signal n
  std::string processors;    // as "0-3,7"
};
/// All threads but the program's first.
std::vector<ThreadSeen> other_threads();

/// Waits for a child and returns its exit status, or 128 + the signal that ended it.
int status_of(pid_t child);

/// Says "ready" and goes on exchanging. Not in the list of scenarios.
[[noreturn]] void stay_until_killed();

std::vector<Scenario> cancelling_scenarios();
std::vector<Scenario> signal_scenarios();
std::vector<Scenario> thread_scenarios();
std::vector<Scenario> jumping_scenarios();
std::vector<Scenario> leaving_scenarios();
std::vector<Scenario> forking_scenarios();
std::vector<Scenario> descriptor_scenarios();
std::vector<Scenario> environment_scenarios();

}  // namespace uroce::embedding
