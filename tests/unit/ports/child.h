#pragma once

#include <signal.h>
#include <sys/types.h>

#include <string>
#include <vector>

namespace uroce::testing {

/// This test program started once more, in another role (roles.h). Ended when the object goes.
class Child {
 public:
  explicit Child(const std::vector<std::string>& arguments);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// The next line that it prints, without the newline; empty at the end.
  std::string read_line();
  /// Closes its standard input, which asks it to end, and waits; the exit status, or 128 + the signal
  /// that ended it.
  int finish();
  /// As a crash would, or another signal that ends it.
  void kill(int signal = SIGKILL);
  /// Until resume(), it does nothing at all.
  void pause();
  void resume();

 private:
  int wait();

  pid_t pid_ = -1;
  int to_ = -1;
  int from_ = -1;
};

}  // namespace uroce::testing
