// What a process has only one of stays as the program left it: folder, mask, locale, limits, timers, and the
// hidden state of the C library.
#include <fenv.h>
#include <getopt.h>
#include <locale.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <xmmintrin.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "guest.h"

extern char** environ;

namespace uroce::embedding {
namespace {

std::vector<std::string> environment() {
  std::vector<std::string> all;
  for (char** entry = environ; *entry != nullptr; ++entry) all.emplace_back(*entry);
  return all;
}

std::vector<rlimit> limits() {
  std::vector<rlimit> all(RLIM_NLIMITS);
  for (size_t i = 0; i < all.size(); ++i) getrlimit(static_cast<__rlimit_resource>(i), &all[i]);
  return all;
}

mode_t mask() {
  const mode_t now = umask(0);
  umask(now);
  return now;
}

struct ProcessState {
  std::string folder = [] {
    char buffer[4096];
    return std::string(getcwd(buffer, sizeof(buffer)));
  }();
  mode_t creation_mask = mask();
  std::string locale = setlocale(LC_ALL, nullptr);
  std::vector<std::string> variables = environment();
  std::vector<rlimit> resource_limits = limits();
  int rounding = fegetround();
  int traps = fegetexcept();
  unsigned vector_control = _mm_getcsr() & ~static_cast<unsigned>(_MM_EXCEPT_MASK);
  int dumpable = prctl(PR_GET_DUMPABLE);
  int timer_slack = prctl(PR_GET_TIMERSLACK);
};

void expect_same(const ProcessState& before) {
  const ProcessState now;
  REQUIRE(now.folder == before.folder);
  REQUIRE(now.creation_mask == before.creation_mask);
  REQUIRE(now.locale == before.locale);

  REQUIRE(now.variables == before.variables);
  REQUIRE(std::memcmp(now.resource_limits.data(), before.resource_limits.data(),
                      before.resource_limits.size() * sizeof(rlimit)) == 0);
  REQUIRE(now.rounding == before.rounding && now.traps == before.traps);
  REQUIRE(now.vector_control == before.vector_control);
  REQUIRE(now.dumpable == before.dumpable);
  REQUIRE(now.timer_slack == before.timer_slack);
}

int stay() {
  // Everything unlike the default.
  umask(0137);
  REQUIRE(chdir(std::getenv("SCRATCH")) == 0);
  setlocale(LC_ALL, "C.UTF-8");
  fesetround(FE_UPWARD);
  const ProcessState before;
  Connection connection;
  expect_same(before);
  connection.exchange();
  expect_same(before);
  connection.close();
  expect_same(before);
  return 0;
}

int getopt_goes_on() {
  char arguments[][8] = {"program", "-a", "-b", "value", "rest"};
  char* argv[] = {arguments[0], arguments[1], arguments[2], arguments[3], arguments[4], nullptr};
  REQUIRE(getopt(5, argv, "ab:") == 'a');
  Connection connection;
  REQUIRE(opterr == 1);
  REQUIRE(getopt(5, argv, "ab:") == 'b' && std::strcmp(optarg, "value") == 0);
  REQUIRE(getopt(5, argv, "ab:") == -1 && optind == 4);
  return 0;
}

int random_sequences_go_on() {
  const auto draw = [] { return std::vector<int64_t>{std::rand(), random(), lrand48()}; };
  const auto seed = [] {
    std::srand(7);
    srand48(7);
  };
  seed();
  const auto undisturbed = draw();
  seed();
  Connection connection;
  connection.exchange();
  REQUIRE(draw() == undisturbed);
  return 0;
}

int timers_stay() {
  const itimerval far{.it_interval = {}, .it_value = {.tv_sec = 3600, .tv_usec = 0}};
  for (const auto which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) setitimer(which, &far, nullptr);
  Connection connection;
  connection.exchange();
  for (const auto which : {ITIMER_REAL, ITIMER_VIRTUAL, ITIMER_PROF}) {
    itimerval now{};
    getitimer(which, &now);
    REQUIRE(now.it_value.tv_sec > 1800);
  }
  return 0;
}

/// Calls that succeed are free to change errno, but posting and polling are inlined into loops that do not
/// expect it.
int errno_stays_on_the_fast_path() {
  Connection connection;
  ibv_wc completion{};
  for (int i = 0; i < 1000; ++i) {
    errno = 4711;
    REQUIRE(connection.post() == 0);
    REQUIRE(errno == 4711);
    int got = 0;
    while (got == 0) got = ibv_poll_cq(connection.cq(0), 1, &completion);
    REQUIRE(got == 1 && errno == 4711);
  }
  return 0;
}

/// ibv_devices opens nothing.
int guids_are_known_before_opening() {
  int count = 0;
  ibv_device** list = ibv_get_device_list(&count);
  REQUIRE(list != nullptr && count == 2);
  for (int i = 0; i < count; ++i) {
    const uint64_t guid = ibv_get_device_guid(list[i]);
    REQUIRE(guid != 0);
    ibv_context* context = ibv_open_device(list[i]);
    REQUIRE(context != nullptr);
    REQUIRE(ibv_get_device_guid(list[i]) == guid);
    REQUIRE(ibv_close_device(context) == 0);
  }
  return 0;
}

}  // namespace

std::vector<Scenario> environment_scenarios() {
  return {{"environment-guids-before-opening", guids_are_known_before_opening},
          {"environment-stay", stay},
          {"environment-getopt-goes-on", getopt_goes_on},
          {"environment-random-sequences-go-on", random_sequences_go_on},
          {"environment-timers-stay", timers_stay},
          {"environment-errno-stays-on-the-fast-path", errno_stays_on_the_fast_path}};
}

}  // namespace uroce::embedding
