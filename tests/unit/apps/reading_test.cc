// Statistics of a process that shows what no stack of ours does: of this one.
#include "apps/stat/reading.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/file.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "host/own_statistics.h"
#include "host/process_memory.h"

namespace uroce::statistics {
namespace {

using Clock = std::chrono::steady_clock;

host::OwnStatistics shown(const char* device, uint32_t devices = 1, uint32_t pollers = 1) {
  auto made = host::OwnStatistics::make(devices, pollers);
  host::OwnStatistics own = std::move(*made);
  for (uint32_t i = 0; i < devices; ++i) {
    host::DeviceShown& one = own.device(i);
    std::string(device).copy(one.name.data(), one.name.size());
    one.pollers = pollers;
  }
  own.header().question.begin();
  return own;
}

/// Descriptors of all statistics of this process, of other open files than those that it shows.
std::vector<Descriptor> opened_again() {
  constexpr std::string_view kName = host::kStatisticsName;
  std::vector<Descriptor> all;
  for (const host::FoundMemory& memory : host::memories_of(getpid(), {&kName, 1}))
    all.push_back(std::move(host::open_memory(getpid(), memory.descriptor, kName, O_RDWR)->descriptor));
  return all;
}

TEST(Reading, LockedByThoseThatNeverEnd_ExpectOneWaitForAll) {
  std::vector<host::OwnStatistics> all;
  for (int i = 0; i < 12; ++i) all.push_back(shown("uroce0"));
  const std::vector<Descriptor> others = opened_again();
  ASSERT_EQ(others.size(), all.size());
  for (const Descriptor& one : others) ASSERT_EQ(flock(one.get(), LOCK_EX | LOCK_NB), 0);
  const auto began = Clock::now();
  const Reading reading = read_statistics({.pid = getpid(), .device = {}});
  // Half a second for each would be six.
  EXPECT_LT(Clock::now() - began, std::chrono::seconds(3));
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].devices.size(), all.size()) << "counters are there all the same";
  EXPECT_FALSE(reading.processes[0].queue_pairs.current);
}

TEST(Reading, OneAnswersAndOneDoesNot_ExpectTheAnswer) {
  host::OwnStatistics silent = shown("silent");
  host::OwnStatistics answering = shown("answering");
  std::atomic<bool> ends{false};
  std::thread process([&] {
    host::StatisticsHeader& header = answering.header();
    while (!ends) {
      if (header.question.is_pending()) {
        answering.rows()[0] = {};
        answering.rows()[0].number = 17;
        header.rows = 1;
        header.question.answer(header.question.take());
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const Reading reading = read_statistics({.pid = getpid(), .device = "answering"});
  ends = true;
  process.join();
  ASSERT_EQ(reading.processes.size(), 1u);
  ASSERT_EQ(reading.processes[0].queue_pairs.rows.size(), 1u);
  EXPECT_EQ(reading.processes[0].queue_pairs.rows[0].number, 17u);
  EXPECT_FALSE(reading.processes[0].queue_pairs.current) << "a part of it is old";
}

TEST(Reading, SeveralDescriptorsOfOneMemory_ExpectItsDevicesOnce) {
  const host::OwnStatistics own = shown("uroce0");
  std::vector<Descriptor> again;
  for (const Descriptor& one : opened_again())
    for (int i = 0; i < 50; ++i) again.emplace_back(dup(one.get()));
  const Reading reading = read_statistics({.pid = getpid(), .device = {}, .asks = false});
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].devices.size(), 1u);
}

TEST(Reading, MoreThanAProcessMayShow_ExpectSoMuchAndALine) {
  std::vector<host::OwnStatistics> all;
  for (int i = 0; i < 5; ++i) all.push_back(shown("uroce0", 2, 64));
  const Reading reading = read_statistics({.pid = getpid(), .device = {}, .asks = false});
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].devices.size(), 4u);
  ASSERT_EQ(reading.complaints.size(), 1u);
  EXPECT_NE(reading.complaints[0].find("3 processes or statistics"), std::string::npos)
      << reading.complaints[0];
}

TEST(Reading, NamesOfForeignBytes_ExpectThemEscaped) {
  const host::OwnStatistics own = shown("\x1b[2J\n\"\xff");
  const Reading reading = read_statistics({.pid = getpid(), .device = {}, .asks = false});
  ASSERT_EQ(reading.processes.size(), 1u);
  EXPECT_EQ(reading.processes[0].devices.at(0).name, R"(\x1b[2J\x0a"\xff)");
}

}  // namespace
}  // namespace uroce::statistics
