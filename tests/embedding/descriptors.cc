// File descriptors: ours do not survive exec, never stand in for the standard streams, and when the program
// closes them behind our back neither a crash follows nor harm to files that got their numbers.
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>

#include "guest.h"
#include "tests/support/soon.h"

namespace uroce::embedding {
namespace {

std::vector<int> open_descriptors() {
  std::vector<int> descriptors;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    descriptors.push_back(std::stoi(entry.path().filename()));
  }
  // That of the iterator itself is closed by now.
  std::erase_if(descriptors, [](int descriptor) { return fcntl(descriptor, F_GETFD) < 0; });
  return descriptors;
}

bool is_listening(int descriptor) {
  int listens = 0;
  socklen_t length = sizeof(listens);
  return getsockopt(descriptor, SOL_SOCKET, SO_ACCEPTCONN, &listens, &length) == 0 && listens != 0;
}

/// Says which of the new descriptors do not, when it is asked to.
bool all_close_on_exec(const std::vector<int>& inherited, bool tell) {
  bool all = true;
  for (const int descriptor : open_descriptors()) {
    const bool ours = std::ranges::find(inherited, descriptor) == inherited.end();
    if (!ours || (fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0) continue;
    const auto what = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(descriptor));
    if (tell) std::fprintf(stderr, "descriptor %d would survive exec: %s\n", descriptor, what.c_str());
    all = false;
  }
  return all;
}

int they_close_on_exec() {
  const std::vector<int> inherited = open_descriptors();
  Connection connection;
  connection.exchange();
  // Those of a memif connection are seen to by a thread that looks at it every few milliseconds.
  for (int tries = 0; tries < 500 && !all_close_on_exec(inherited, false); ++tries) connection.exchange();
  return all_close_on_exec(inherited, true) ? 0 : 1;
}

int none_stands_in_for_a_standard_stream() {
  for (int descriptor = 0; descriptor <= 2; ++descriptor) close(descriptor);
  Connection connection;
  for (int descriptor = 0; descriptor <= 2; ++descriptor) {
    REQUIRE(fcntl(descriptor, F_GETFD) == -1 && errno == EBADF);
  }
  // What the program prints goes nowhere, and not into a pipe of ours.
  std::printf("to no reader\n");
  std::fflush(stdout);
  REQUIRE(ibv_req_notify_cq(connection.cq(0), 0) == 0);
  connection.exchange();
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  REQUIRE(ibv_get_cq_event(connection.channel(0), &cq, &cq_context) == 0 && cq == connection.cq(0));
  ibv_ack_cq_events(cq, 1);
  connection.close();
  return 0;
}

std::string new_file(const std::string& name) { return std::string(std::getenv("SCRATCH")) + "/" + name; }

/// A file that the program opened got the number of its closed standard error.
int messages_do_not_go_into_its_file() {
  setenv("UROCE_CONFIG_TEXT", "this is not TOML", 1);
  close(STDERR_FILENO);
  const int file = open(new_file("data").c_str(), O_RDWR | O_CREAT, 0600);
  if (file != STDERR_FILENO) _exit(2);
  if (ibv_get_device_list(nullptr) != nullptr || errno != EINVAL) _exit(3);
  struct stat status {};
  fstat(file, &status);
  _exit(status.st_size == 0 ? 0 : 4);
}

/// A log that was put in place of standard error does get them.
int messages_go_into_its_log() {
  setenv("UROCE_CONFIG_TEXT", "this is not TOML", 1);
  const int file = open(new_file("log").c_str(), O_WRONLY | O_CREAT | O_APPEND, 0600);
  dup2(file, STDERR_FILENO);
  if (ibv_get_device_list(nullptr) != nullptr) _exit(3);
  struct stat status {};
  fstat(file, &status);
  _exit(status.st_size > 0 ? 0 : 4);
}

void close_everything() { syscall(SYS_close_range, 3U, ~0U, 0U); }

/// A daemon closes what it does not know; what it opens then gets the numbers.
int closed_behind_our_back() {
  auto* connection = new Connection;
  REQUIRE(ibv_req_notify_cq(connection->cq(0), 0) == 0);
  close_everything();
  std::vector<int> files;
  for (int i = 0; i < 40; ++i) {
    files.push_back(open(new_file("file" + std::to_string(i)).c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    REQUIRE(files.back() > 2);
  }
  connection->exchange();  // by polling; the event of its completion is lost with its pipe
  connection->close();
  for (const int file : files) {
    struct stat status {};
    REQUIRE(fstat(file, &status) == 0 && status.st_size == 0);
  }
  return 0;
}

int closed_and_waited_on() {
  auto* connection = new Connection;
  connection->exchange();
  close_everything();
  ibv_cq* cq = nullptr;
  void* cq_context = nullptr;
  ibv_async_event event{};
  REQUIRE(ibv_get_cq_event(connection->channel(0), &cq, &cq_context) == -1 && errno == EBADF);
  REQUIRE(ibv_get_async_event(connection->context(0), &event) == -1 && errno == EBADF);
  connection->leave_work_behind();
  return 0;  // with everything open that can be
}

int nothing_is_left_open() {
  const auto once = [] {
    Connection connection;
    connection.exchange();
    connection.close();
  };
  once();  // EAL, once started, keeps its own
  // DPDK does not close the socket on which a memif server listened.
  const auto count = [] {
    std::vector<int> all = open_descriptors();
    std::erase_if(all, is_listening);
    return all.size();
  };
  const size_t descriptors = count();
  const size_t threads = other_threads().size();
  for (int i = 0; i < 5; ++i) once();

  REQUIRE(count() == descriptors);
  REQUIRE(soon([&] { return other_threads().size() <= threads; }));
  return 0;
}

/// Whatever descriptor it is that the process may not have any more: an error, and all of it undone.
int too_few() {
  const size_t before = open_descriptors().size();
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list != nullptr);
  const int lowest = dup(STDERR_FILENO);
  close(lowest);
  const rlimit none{.rlim_cur = static_cast<rlim_t>(lowest), .rlim_max = limit.rlim_max};
  setrlimit(RLIMIT_NOFILE, &none);
  REQUIRE(ibv_open_device(list[0]) == nullptr && errno == EMFILE);
  setrlimit(RLIMIT_NOFILE, &limit);
  REQUIRE(open_descriptors().size() == before);
  Connection connection;
  connection.exchange();
  return 0;
}

/// One more each time: EAL, where it is needed, starts or says that it cannot.
int each_number_of_them() {
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list != nullptr);
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  const int errors = dup(STDERR_FILENO);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  dup2(nowhere, STDERR_FILENO);  // that it cannot is told each time
  ibv_context* context = nullptr;
  for (rlim_t more = 1; context == nullptr; ++more) {
    const rlimit some{.rlim_cur = static_cast<rlim_t>(nowhere) + more, .rlim_max = limit.rlim_max};
    setrlimit(RLIMIT_NOFILE, &some);
    context = ibv_open_device(list[0]);
    if (more == 200) break;
  }
  setrlimit(RLIMIT_NOFILE, &limit);
  dup2(errors, STDERR_FILENO);
  REQUIRE(context != nullptr);
  REQUIRE(ibv_close_device(context) == 0);
  return 0;
}

int none_stays_of_a_device_closed_with_objects() {
  ibv_device** list = ibv_get_device_list(nullptr);
  REQUIRE(list != nullptr);
  // The port itself stays open.
  ibv_context* stays = ibv_open_device(list[0]);
  REQUIRE(stays != nullptr);
  const size_t before = open_descriptors().size();
  for (int i = 0; i < 8; ++i) {
    ibv_context* context = ibv_open_device(list[0]);
    REQUIRE(context != nullptr);
    REQUIRE(ibv_alloc_pd(context) != nullptr);
    REQUIRE(ibv_close_device(context) == 0);
  }
  REQUIRE(open_descriptors().size() == before);
  REQUIRE(ibv_close_device(stays) == 0);
  return 0;
}

}  // namespace

std::vector<Scenario> descriptor_scenarios() {
  return {
      {"descriptors-close-on-exec", they_close_on_exec},
      {"descriptors-none-stands-in-for-a-standard-stream", none_stands_in_for_a_standard_stream},
      {"descriptors-messages-do-not-go-into-its-file", messages_do_not_go_into_its_file},
      {"descriptors-messages-go-into-its-log", messages_go_into_its_log},
      {"descriptors-closed-behind-our-back", closed_behind_our_back},
      {"descriptors-closed-and-waited-on", closed_and_waited_on},
      {"descriptors-nothing-is-left-open", nothing_is_left_open},
      {"descriptors-none-stays-of-a-device-closed-with-objects", none_stays_of_a_device_closed_with_objects},
      {"descriptors-each-number-of-them", each_number_of_them},
      {"descriptors-too-few", too_few}};
}

}  // namespace uroce::embedding
