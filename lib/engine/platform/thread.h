#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>

#include "base/values/result.h"

namespace uroce::engine {

/// A thread of ours in a program's process: no signal is ever delivered to it (but faults of its own,
/// once it turns pollers: fault_handler.h), it has a name of its own, and it runs on the CPUs it was given,
/// whatever those of its creator are. Joined by join() or the destructor.
class Thread {
 public:
  Thread() = default;
  Thread(Thread&&) = default;
  Thread& operator=(Thread&&) = delete;
  ~Thread() { join(); }

  /// `name` is cut to 15 characters; `processors` empty: all that the process may use. EAGAIN: no more
  /// threads.
  static Result<Thread> start(std::string name, std::span<const uint32_t> processors,
                              std::function<void()> body);

  void join();
  /// Forgets the thread without waiting: it does not exist in a forked child.
  void abandon();

 private:
  explicit Thread(std::thread thread) : thread_(std::move(thread)) {}
  std::thread thread_;
};

/// Asks the scheduler to run the calling thread soon and briefly rather than late and long. Linux before 6.12
/// takes no notice.
void prefer_short_slices();

}  // namespace uroce::engine
