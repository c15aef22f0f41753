// How often the questions of programs are looked up.
#include "service/neighbour_watch.h"

#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <span>
#include <vector>

#include "base/process/descriptor.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using service::NeighbourWatch;
using service::ServedDevice;

Gid neighbour(uint8_t n) { return Gid::from_ipv4({192, 0, 2, n}); }

class NeighbourWatchTest : public ::testing::Test {
 protected:
  void ask(uint8_t n, uint32_t program = 1) { watch_.ask({program, 0}, *device_, {neighbour(n), 0}, now_); }
  /// The stations that are looked up when it is due, which must be now.
  std::vector<Gid> looked_up() {
    EXPECT_LE(watch_.deadline(), now_);
    looked_up_.clear();
    answers_ = watch_.answers(now_);
    return looked_up_;
  }

  const Descriptor changes_{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
  const std::shared_ptr<engine::Stack> stack_ = std::move(*engine::Stack::create(one_device()));
  const std::unique_ptr<ServedDevice> device_ =
      std::move(*ServedDevice::open({.stack = stack_, .index = 0, .changes = changes_.get()}));
  Instant now_ = Instant{} + seconds(1);
  int error_ = EINPROGRESS;
  std::vector<Gid> looked_up_;
  std::vector<NeighbourWatch::Answer> answers_;
  NeighbourWatch watch_{[this](ServedDevice&, std::span<engine::Device::NeighbourQuestion> questions) {
    for (engine::Device::NeighbourQuestion& question : questions) {
      looked_up_.push_back(question.destination);
      question.error = error_;
    }
  }};
};

using Stations = std::vector<Gid>;

TEST_F(NeighbourWatchTest, OneMoreQuestion_ExpectNoLookAtTheOthers) {
  for (uint8_t n = 0; n < 100; ++n) ask(n);
  EXPECT_EQ(looked_up().size(), 100u);
  now_ = now_ + microseconds(100);
  EXPECT_GT(watch_.deadline(), now_);
  ask(100);
  EXPECT_EQ(looked_up(), Stations{neighbour(100)});
  ask(101);
  EXPECT_EQ(looked_up(), Stations{neighbour(101)});
}

TEST_F(NeighbourWatchTest, OpenQuestion_ExpectLooksAfterAMillisecondAndLaterAfterTwenty) {
  ask(1);
  EXPECT_EQ(looked_up(), Stations{neighbour(1)});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(watch_.deadline() - now_, milliseconds(1));
    now_ = watch_.deadline();
    EXPECT_EQ(looked_up(), Stations{neighbour(1)});
  }
  EXPECT_EQ(watch_.deadline() - now_, milliseconds(20));
  // Other questions change nothing about that.
  const Instant due = watch_.deadline();
  now_ = now_ + microseconds(19'300);
  ask(2);
  EXPECT_EQ(looked_up(), Stations{neighbour(2)});
  EXPECT_EQ(watch_.deadline(), due);
  now_ = due;
  EXPECT_EQ(looked_up(), Stations{neighbour(1)});
  EXPECT_EQ(watch_.deadline(), due + milliseconds(1)) << "at a whole millisecond";
}

TEST_F(NeighbourWatchTest, AnswerOrItsAbsence_ExpectTheProgramTold) {
  ask(1);
  looked_up();
  now_ = watch_.deadline();
  error_ = 0;
  looked_up();
  ASSERT_EQ(answers_.size(), 1u);
  EXPECT_EQ(answers_[0].error, 0);
  EXPECT_EQ(watch_.deadline(), kNever);
  error_ = EINPROGRESS;
  ask(2);
  const Instant asked = now_;
  for (answers_.clear(); answers_.empty(); now_ = std::min(watch_.deadline(), asked + seconds(4))) {
    ASSERT_LT(now_ - asked, seconds(4));
    looked_up();
  }
  EXPECT_EQ(answers_[0].error, ETIMEDOUT);
  EXPECT_EQ(watch_.deadline(), kNever);
}

}  // namespace
}  // namespace uroce::testing
