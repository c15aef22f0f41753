// What is left of the goodput by loss and round trip, as it was recorded: a change of the transport shows as
// a difference of goodput.txt.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <fstream>
#include <iterator>
#include <string>

#include "tests/sim/goodput.h"

namespace uroce::sim {
namespace {

using queue::SendOperation;

struct Row {
  SendOperation operation;
  Duration round_trip;
};
constexpr std::array<uint64_t, 5> kLosses = {0, 10, 100, 1000, 5000};  // of 100,000 packets

std::string text_of(const Row& row) {
  const char* const name = row.operation == SendOperation::kRead ? "READ" : "WRITE";
  std::string text = fmt::format("{:<5} {:>5} us", name, row.round_trip.ns / 1000);
  for (const uint64_t loss : kLosses) {
    const Goodput goodput = measure_goodput(
        {.loss = loss, .round_trip = row.round_trip, .messages = 500, .operation = row.operation});
    text += fmt::format(" | {:>5.2f} {:>4} {:>2}", goodput.gigabits_per_second, goodput.sent_again,
                        goodput.ack_timeouts);
  }
  return text + "\n";
}

TEST(GoodputTable, IsAsRecorded) {
  const std::string path = UROCE_GOODPUT_TABLE;
  std::ifstream file(path);
  const std::string recorded{std::istreambuf_iterator(file), {}};
  std::string found =
      "# 64 KiB messages on a link of 25 Gbit/s that loses packets in both directions: Gbit/s, packets sent "
      "again, ACK\n"
      "# timeouts. Recorded by build/tests/sim/goodput_table_test, which writes goodput.txt.new where it "
      "differs.\n"
      "#                  lossless |        0.01 % |         0.1 % |           1 % |           5 %\n";
  for (const SendOperation operation : {SendOperation::kWrite, SendOperation::kRead})
    for (const int64_t us : {5, 20, 100, 1000}) found += text_of({operation, microseconds(us)});
  if (found != recorded) std::ofstream(path + ".new") << found;
  EXPECT_EQ(found, recorded) << "if that is meant: mv " << path << ".new " << path;
}

}  // namespace
}  // namespace uroce::sim
