#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

namespace uroce::serve {

/// Programs that live with the service and are its clients as any other: they are started when it serves,
/// again when they die, and end with it, also when it is killed. What one of them does wrong touches nothing
/// of the service. One thread, without which nothing happens.
class Companions {
 public:
  struct Program {
    std::string name;                    // "uroce nvmf", for messages; no two have the same
    std::vector<std::string> arguments;  // of the program uroce
    std::string configuration;           // the file that it reads
    bool operator==(const Program&) const = default;
  };

  /// `socket`: of the service.
  explicit Companions(std::string socket) : socket_(std::move(socket)) {}
  /// Kills what is there.
  ~Companions();
  Companions(const Companions&) = delete;
  Companions& operator=(const Companions&) = delete;

  /// From now on these are to run. One that runs already is told to read its file again, by SIGHUP, or is
  /// started anew when it has another file.
  void apply(std::vector<Program> wanted);

  /// Starts what is to run, and reaps what has died. To be called again and again, and soon after a SIGCHLD.
  /// When the service is stopping they are told to end, and killed if they do not; true: none is left.
  bool look(bool stopping);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kPauseMin{1};
  static constexpr std::chrono::seconds kPauseMax{30};
  static constexpr std::chrono::seconds kStable{60};  // after so long the next pause is the shortest again
  static constexpr std::chrono::seconds kGrace{5};    // from SIGTERM to SIGKILL

  struct Child {
    Program program;
    pid_t process = 0;  // 0: none
    Clock::time_point started{};
    Clock::time_point start_at{};
    std::chrono::seconds pause = kPauseMin;
    bool leaving = false;   // it is to end, and not to be started again
    bool replaced = false;  // it is to end, and to be started as `program` now says
    Clock::time_point kill_at{};
  };

  void start(Child& child);
  /// Whether it has died.
  bool reap(Child& child);
  void tell_end(const Child& child, int status) const;
  static void ask_to_end(Child& child);

  const std::string socket_;
  std::vector<Child> children_;
};

}  // namespace uroce::serve
