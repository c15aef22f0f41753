// A program that is captured answers as none of ours does: again and again, or with a text for the
// superuser's terminal; and one that orders a capture does not read.
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "host/shared_memory.h"
#include "tests/support/soon.h"
#include "tests/unit/service/running_service.h"

namespace uroce::testing {
namespace {

using host::Message;
using host::MessageType;

constexpr std::string_view kOrder = "capture,direction=both";

size_t open_descriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

/// A connection whose capture the service has taken.
class Capturer {
 public:
  explicit Capturer(const std::string& path) : connection_(path) {
    Message order = hello(MessageType::kFaultAdd);
    order.count = 1;
    host::set_text(order.text, kOrder);
    const Message answer = connection_.ask(order);
    EXPECT_EQ(answer.error, 0) << host::text_of(answer.text);
    number_ = answer.number;
  }
  FakeProgram& connection() { return connection_; }
  [[nodiscard]] uint32_t number() const { return number_; }

 private:
  FakeProgram connection_;
  uint32_t number_ = 0;
};

Message taken(uint32_t number, int32_t error = 0, std::string_view text = {}) {
  Message answer{.type = MessageType::kFaultTaken, .error = error, .number = number};
  host::set_text(answer.text, text);
  return answer;
}

/// A program that has been told of a capture, which it has not answered.
class Captures : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(program.receive(MessageType::kFault)); }

  RunningService service;
  FakeProgram program{service.path()};
  const Message attached = program.attach();
  Capturer capturer{service.path()};
};

TEST_F(Captures, AnsweredTwice_ExpectOneMemoryAndTheEndOfTheProgram) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 100; ++i) program.send(taken(capturer.number()), {program.memory().descriptor()});
  EXPECT_TRUE(program.closed());
  auto captured = capturer.connection().receive(MessageType::kCaptured);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->message.error, 0);
  EXPECT_EQ(captured->descriptors.size(), 1u);
  EXPECT_TRUE(capturer.connection().silent());
  captured.reset();
  EXPECT_LE(open_descriptors(), before);
}

TEST(CaptureOrders, AnswerToAnOrderThatThereWasNot_ExpectTheEndOfTheProgram) {
  RunningService service;
  FakeProgram program(service.path());
  program.attach();
  ASSERT_TRUE(program.send(taken(7), {program.memory().descriptor()}));
  EXPECT_TRUE(program.closed());
}

TEST_F(Captures, FileInsteadOfMemory_ExpectNoDescriptorForTheCapturer) {
  ASSERT_TRUE(program.send(taken(capturer.number()), {program.socket()}));
  const auto captured = capturer.connection().receive(MessageType::kCaptured);
  ASSERT_TRUE(captured);
  EXPECT_NE(captured->message.error, 0);
  EXPECT_TRUE(captured->descriptors.empty());
  EXPECT_EQ(host::text_of(captured->message.text), R"(fake \x1b program: its memory is not sealed)");
}

TEST_F(Captures, ProgramThatRefusesWithEscapes_ExpectNothingButPrintableText) {
  ASSERT_TRUE(program.send(taken(capturer.number(), EPERM, "\x1b[31mRED\r\nuroce dump: forged\xff")));
  const auto captured = capturer.connection().receive(MessageType::kCaptured);
  ASSERT_TRUE(captured);
  EXPECT_EQ(captured->message.error, EPERM);
  EXPECT_EQ(host::text_of(captured->message.text), R"(\x1b[31mRED\x0d\x0auroce dump: forged\xff)");
}

TEST(CaptureOrders, OneThatDoesNotReadAndProgramsThatComeAndGo_ExpectBoundedDescriptors) {
  RunningService service;
  Capturer capturer(service.path());
  const size_t before = open_descriptors();
  // The socket and the service hold some; the programs are more.
  constexpr int kPrograms = 600;
  for (int i = 0; i < kPrograms; ++i) {
    FakeProgram program(service.path());
    if (program.attach().type != MessageType::kAttached) continue;  // blocks of numbers rest
    ASSERT_TRUE(program.receive(MessageType::kFault));
    ASSERT_TRUE(program.send(taken(capturer.number()), {program.memory().descriptor()}));
    program.status();  // the service has read it
  }
  EXPECT_LE(open_descriptors(), before + 200);
  int captures = 0;
  bool said = false;
  const auto read_all = [&] {
    while (!capturer.connection().silent()) {
      const auto captured = capturer.connection().receive(MessageType::kCaptured);
      ASSERT_TRUE(captured);
      captures += captured->message.error == 0 ? 1 : 0;
      said |= captured->message.error == ENOBUFS;
    }
  };
  read_all();
  FakeProgram last(service.path());
  ASSERT_TRUE(soon([&] { return last.attach().type == MessageType::kAttached; }));
  ASSERT_TRUE(last.receive(MessageType::kFault));
  ASSERT_TRUE(last.send(taken(capturer.number()), {last.memory().descriptor()}));
  read_all();
  EXPECT_LT(captures, kPrograms);
  EXPECT_TRUE(said) << "that some are missing is not told";
}

}  // namespace
}  // namespace uroce::testing
