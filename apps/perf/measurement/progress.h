#pragma once

#include <cstddef>
#include <string>

namespace uroce::perf {

/// A bar on standard error while measuring; nothing unless that is a terminal. Gone when it ends.
class Progress {
 public:
  Progress(size_t steps, bool wanted);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// The next step begins.
  void step(const std::string& what);

 private:
  size_t steps_;
  size_t begun_ = 0;
  bool shown_;
};

}  // namespace uroce::perf
