#include "engine/platform/eal_log.h"

#include <rte_log.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

#include <cstdlib>
#include <utility>

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

ssize_t EalLog::write(void* cookie, const char* text, size_t bytes) {
  auto& log = *static_cast<EalLog*>(cookie);
  const int level = rte_log_cur_msg_loglevel();
  if (level >= 0 && level <= static_cast<int>(RTE_LOG_ERR)) log.note_error({text, bytes});
  if (level >= 0 && static_cast<uint32_t>(level) <= log.level_) {
    [[maybe_unused]] const size_t written = fwrite(text, 1, bytes, stderr);
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
