#include "apps/perf/measurement/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

namespace uroce::perf {

Progress::Progress(size_t steps, bool wanted) : steps_(steps), shown_(wanted && isatty(STDERR_FILENO) == 1) {}

void Progress::step(const std::string& what) {
  constexpr size_t kWidth = 30;
  if (!shown_) return;
  const size_t filled = steps_ == 0 ? kWidth : kWidth * begun_ / steps_;
  ++begun_;
  // Carriage return and "erase to the end of the line": the line is written over and over.
  fmt::print(stderr, "\r[{:#<{}}{:.<{}}] {}/{}  {}\x1b[K", "", filled, "", kWidth - filled, begun_, steps_,
             what);
  std::fflush(stderr);
}

Progress::~Progress() {
  if (shown_ && begun_ != 0) fmt::print(stderr, "\r\x1b[K");
}

}  // namespace uroce::perf
