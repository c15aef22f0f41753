#include "engine/platform/eal_log.h"

#include <rte_log.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "engine/platform/log.h"

namespace uroce::engine {

std::string log_level_in_force(const std::string& configured) {
  const char* environment = std::getenv("UROCE_LOG");
  return environment != nullptr && *environment != '\0' ? environment : configured;
}

EalLog& EalLog::instance() {
  static EalLog& log = *new EalLog;  // DPDK keeps the stream until the process ends
  return log;
}

EalLog& EalLog::install(std::string_view level) {
  EalLog& log = instance();
  // DPDK calls "warning" what concerns only itself (no hugepages, no telemetry): it is shown from "info" on,
  // and its errors come back in our own one line.
  log.level_ = level == "debug" ? RTE_LOG_DEBUG : level == "info" ? RTE_LOG_INFO : 0;
  const cookie_io_functions_t functions = {
      .read = nullptr, .write = &EalLog::write, .seek = nullptr, .close = nullptr};
  FILE* stream = fopencookie(&log, "w", functions);
  if (stream == nullptr) return log;
  setvbuf(stream, nullptr, _IOLBF, BUFSIZ);
  rte_openlog_stream(stream);
  rte_log_set_global_level(log.level_ == 0 ? RTE_LOG_ERR : log.level_);
  return log;
}

std::string EalLog::last_error() const {
  const std::lock_guard guard(mutex_);
  return last_error_;
}

std::string EalLog::take_first_error() {
  EalLog& log = instance();
  const std::lock_guard guard(log.mutex_);
  return std::exchange(log.first_error_, {});
}

void EalLog::note_error(std::string_view text) {
  const std::lock_guard guard(mutex_);
  last_error_.assign(text.substr(0, text.find_last_not_of('\n') + 1));
  if (first_error_.empty()) first_error_ = last_error_;
}

/// Shows lines as DPDK wrote them, or as ours.
void EalLog::show(int level, std::string_view text) {
  if (log_format() == LogFormat::kText) {
    // Lines of debugging are asked for, and many at the start.
    if (level <= static_cast<int>(RTE_LOG_INFO)) return write_log_text(text);
    [[maybe_unused]] const size_t written = fwrite(text.data(), 1, text.size(), stderr);
    return;
  }
  const LogLevel ours = level <= static_cast<int>(RTE_LOG_ERR)       ? LogLevel::kError
                        : level <= static_cast<int>(RTE_LOG_WARNING) ? LogLevel::kWarning
                        : level <= static_cast<int>(RTE_LOG_INFO)    ? LogLevel::kInfo
                                                                     : LogLevel::kDebug;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    if (end != 0) write_log(ours, "dpdk", text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
}

ssize_t EalLog::write(void* cookie, const char* text, size_t bytes) {
  auto& log = *static_cast<EalLog*>(cookie);
  const int level = rte_log_cur_msg_loglevel();
  if (level >= 0 && level <= static_cast<int>(RTE_LOG_ERR)) log.note_error({text, bytes});
  if (level >= 0 && static_cast<uint32_t>(level) <= log.level_) {
    show(level, {text, bytes});
  }
  return static_cast<ssize_t>(bytes);
}

OutputCapture::OutputCapture() {
  fflush(stdout);
  fflush(stderr);
  divert(out_, STDOUT_FILENO);
  divert(error_, STDERR_FILENO);
}

OutputCapture::~OutputCapture() {
  fflush(stdout);
  fflush(stderr);
  restore(out_);
  restore(error_);
}

void OutputCapture::divert(Stream& stream, int descriptor) {
  stream.original = dup(descriptor);
  stream.kept = memfd_create("uroce-output", MFD_CLOEXEC);
  if (stream.original < 0 || stream.kept < 0) return;
  dup2(stream.kept, descriptor);
  stream.descriptor = descriptor;
}

void OutputCapture::restore(Stream& stream) const {
  if (stream.descriptor >= 0) {
    dup2(stream.original, stream.descriptor);
    const off_t bytes = lseek(stream.kept, 0, SEEK_CUR);
    off_t from = 0;
    while (!discarded_ && from < bytes) {
      if (sendfile(stream.descriptor, stream.kept, &from, static_cast<size_t>(bytes - from)) <= 0) break;
    }
  }
  if (stream.original >= 0) close(stream.original);
  if (stream.kept >= 0) close(stream.kept);
}

}  // namespace uroce::engine
