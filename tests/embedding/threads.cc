// Threads of ours have names of ours, stay on the CPUs of the process, and sleep when there is nothing to do.
#include <arpa/inet.h>
#include <rdma/rdma_cma.h>
#include <sched.h>
#include <sys/resource.h>
#include <time.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <map>

#include "guest.h"

namespace uroce::embedding {
namespace {

std::string own_processors() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Cpus_allowed_list:"))
      return line.substr(line.find_first_not_of(" \t", line.find(':') + 1));
  }
  return {};
}

int they_have_names() {
  Connection connection;
  connection.exchange();
  for (const ThreadSeen& thread : other_threads()) {
    // DPDK's own call themselves "eal-..." and "rte_...".
    const bool named = thread.name.starts_with("uroce-") || thread.name.starts_with("eal-") ||
                       thread.name.starts_with("rte_");
    if (!named) std::fprintf(stderr, "a thread is called %s\n", thread.name.c_str());
    REQUIRE(named);
  }
  return 0;
}

/// Run under `taskset` too: what the process was given is what all its threads keep.
int they_stay_in_the_cpuset() {
  const std::string given = own_processors();
  Connection connection;
  connection.exchange();
  REQUIRE(own_processors() == given);
  for (const ThreadSeen& thread : other_threads()) {
    // EAL's main lcore is pinned to one of them; with one CPU given there is no other.
    const bool within =
        thread.processors == given || thread.name.starts_with("eal-") || thread.name.starts_with("rte_");
    if (!within) std::fprintf(stderr, "%s runs on %s\n", thread.name.c_str(), thread.processors.c_str());
    REQUIRE(within);
    REQUIRE(given.find_first_of(",-") != std::string::npos || thread.processors == given);
  }
  connection.close();
  REQUIRE(own_processors() == given);
  return 0;
}

/// A program that pins its thread itself, before and after, finds it where it put it.
int a_pinned_caller_stays_pinned() {
  cpu_set_t allowed;
  sched_getaffinity(0, sizeof(allowed), &allowed);
  size_t last = 0;
  for (size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) last = cpu;
  }
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(last, &one);
  sched_setaffinity(0, sizeof(one), &one);
  const int niceness = getpriority(PRIO_PROCESS, 0);
  Connection connection;
  connection.exchange();
  cpu_set_t now;
  sched_getaffinity(0, sizeof(now), &now);
  REQUIRE(CPU_EQUAL(&now, &one));
  sched_param parameters{};
  REQUIRE(sched_getscheduler(0) == SCHED_OTHER && sched_getparam(0, &parameters) == 0);
  REQUIRE(getpriority(PRIO_PROCESS, 0) == niceness);
  return 0;
}

/// rdma_resolve_addr is called in event loops, and takes no time there to start what the devices need: that
/// is all there once the program has an event channel.
int they_start_with_the_event_channel() {
  REQUIRE(other_threads().empty());
  rdma_event_channel* const channel = rdma_create_event_channel();
  REQUIRE(channel != nullptr);
  const size_t started = other_threads().size();
  REQUIRE(started != 0);
  rdma_cm_id* id = nullptr;
  REQUIRE(rdma_create_id(channel, &id, nullptr, RDMA_PS_TCP) == 0);
  sockaddr_in destination{};
  destination.sin_family = AF_INET;
  destination.sin_port = htons(1);
  REQUIRE(inet_pton(AF_INET, "192.0.2.2", &destination.sin_addr) == 1);
  REQUIRE(rdma_resolve_addr(id, nullptr, reinterpret_cast<sockaddr*>(&destination), 1000) == 0);
  REQUIRE(other_threads().size() == started);
  REQUIRE(rdma_destroy_id(id) == 0);
  rdma_destroy_event_channel(channel);
  return 0;
}

double seconds(const timespec& time) {
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) / 1e9;
}

/// CPU time of the whole process by the time that went by, with devices open and queue pairs connected.
double share_of_a_core(double for_seconds) {
  timespec began{};
  timespec used_before{};
  clock_gettime(CLOCK_MONOTONIC, &began);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_before);
  const timespec pause{.tv_sec = static_cast<time_t>(for_seconds), .tv_nsec = 0};
  nanosleep(&pause, nullptr);
  timespec ended{};
  timespec used_after{};
  clock_gettime(CLOCK_MONOTONIC, &ended);
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used_after);
  return (seconds(used_after) - seconds(used_before)) / (seconds(ended) - seconds(began));
}

int an_idle_process_costs_little() {
  constexpr double kPromised = 0.05;
  // CPU time also counts what the machine takes from us while it is busy elsewhere: the quietest of some.
  constexpr int kWindows = 5;
  Connection connection;
  connection.exchange();
  double least = 1;
  for (int i = 0; i < kWindows && least >= kPromised; ++i) least = std::min(least, share_of_a_core(1));
  if (least < kPromised) return 0;
  std::fprintf(stderr, "an idle process takes %.1f %% of a core\n", least * 100);
  return 1;
}

}  // namespace

std::vector<Scenario> thread_scenarios() {
  return {{"threads-have-names", they_have_names},
          {"threads-stay-in-the-cpuset", they_stay_in_the_cpuset},
          {"threads-a-pinned-caller-stays-pinned", a_pinned_caller_stays_pinned},
          {"threads-start-with-the-event-channel", they_start_with_the_event_channel},
          {"idle-costs-little", an_idle_process_costs_little}};
}

}  // namespace uroce::embedding
