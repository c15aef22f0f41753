// Lines of the log as JSON, and how many there may be.
#include "engine/platform/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>

namespace uroce::engine {
namespace {

nlohmann::json parsed(std::string_view message, std::span<const LogField> fields = {}) {
  const std::string line =
      json_line("2026-11-26T12:00:00.000001Z", LogLevel::kError, "uroce", message, fields);
  EXPECT_EQ(line.find('\n'), std::string::npos) << line;
  return nlohmann::json::parse(line);
}

TEST(JsonLog, HasTheMessageAndItsFields) {
  const std::array fields{LogField{"device", "uroce0"}, LogField{"queue_pair", uint64_t{17}},
                          LogField{"most", UINT64_MAX}};
  const nlohmann::json line = parsed("it has ended", fields);
  EXPECT_EQ(line["time"], "2026-11-26T12:00:00.000001Z");
  EXPECT_EQ(line["level"], "error");
  EXPECT_EQ(line["origin"], "uroce");
  EXPECT_EQ(line["message"], "it has ended");
  EXPECT_EQ(line["device"], "uroce0");
  EXPECT_EQ(line["queue_pair"], 17);
  EXPECT_EQ(line["most"], UINT64_MAX);
  EXPECT_GT(line["pid"], 0);
}

TEST(JsonLog, IsJsonWhateverTheMessageHolds) {
  EXPECT_EQ(parsed("a \"quoted\" \\ back\nslash\t\x01")["message"], "a \"quoted\" \\ back\nslash\t\x01");
  EXPECT_EQ(parsed("gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80")["message"], "gr\xC3\xBC\xC3\x9F \xF0\x9F\x98\x80");
  EXPECT_EQ(parsed(std::string_view("\0", 1))["message"], std::string(1, '\0'));
  // No UTF-8: alone, cut short, written too long, half of a pair, beyond the last.
  for (const char* wrong : {"\xFF", "\x80", "\xC3", "\xE2\x82", "\xC0\xAF", "\xE0\x80\xAF", "\xED\xA0\x80",
                            "\xF4\x90\x80\x80", "\xF8\x88\x80\x80\x80"}) {
    const auto message = parsed(std::string("x") + wrong + "y")["message"].get<std::string>();
    EXPECT_TRUE(message.starts_with("x\xEF\xBF\xBD") && message.ends_with("y")) << message;
  }
  for (int i = 0; i < 256; ++i)
    for (int j = 0; j < 256; ++j) parsed(std::string{static_cast<char>(i), static_cast<char>(j)});
}

TEST(WriteLog, AsText_ExpectOneLineOfPrintableText) {
  testing::internal::CaptureStderr();
  set_log_format(LogFormat::kText);
  write_log(LogLevel::kError, "uroce", "\x1b[31m\"red\"\r\nuroce: forged \xff\xc2\x9b");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "uroce: \\x1b[31m\"red\"\\x0d\\x0auroce: forged \\xff\\xc2\\x9b\n");
}

TEST(LogLimit, LetsSoManyThroughInASecondAndCountsTheRest) {
  LogLimit limit;
  for (uint32_t i = 0; i < LogLimit::kLinesMax; ++i) EXPECT_TRUE(limit.admits(5));
  for (int i = 0; i < 7; ++i) EXPECT_FALSE(limit.admits(5));
  EXPECT_TRUE(limit.admits(6));
  EXPECT_EQ(limit.take_suppressed(), 7u);
  EXPECT_EQ(limit.take_suppressed(), 0u);
}

TEST(WriteLog, SaysHowManyLinesItLeftOut) {
  testing::internal::CaptureStderr();
  set_log_format(LogFormat::kJson);
  // Within one second or across several, what was not written is told before the last line.
  uint64_t written = 0;
  uint64_t suppressed = 0;
  for (uint32_t i = 0; i < 10 * LogLimit::kLinesMax; ++i) write_log(LogLevel::kInfo, "test", "line");
  timespec pause{.tv_sec = 1, .tv_nsec = 100'000'000};
  nanosleep(&pause, nullptr);
  write_log(LogLevel::kInfo, "test", "last");
  set_log_format(LogFormat::kText);
  std::istringstream lines(testing::internal::GetCapturedStderr());
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    suppressed += json.value("suppressed", uint64_t{0});
    written += json["message"] == "line" ? 1 : 0;
  }
  EXPECT_EQ(written + suppressed, 10u * LogLimit::kLinesMax);
  EXPECT_GT(suppressed, 0u);
}

TEST(WriteLog, LinesOfOthersHaveTheSameLimit) {
  testing::internal::CaptureStderr();
  for (uint32_t i = 0; i < 10 * LogLimit::kLinesMax; ++i) write_log_text("EAL: line\n");
  timespec pause{.tv_sec = 1, .tv_nsec = 100'000'000};
  nanosleep(&pause, nullptr);
  write_log_text("EAL: last\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_LT(std::ranges::count(text, '\n'), 10 * LogLimit::kLinesMax);
  EXPECT_NE(text.find(" lines were not written\nEAL: last\n"), std::string::npos) << text;
}

TEST(WriteLog, IsALineOfTextByDefault) {
  testing::internal::CaptureStderr();
  const LogField field{"device", "uroce0"};
  write_log(LogLevel::kError, "uroce", "uroce0: gone", {&field, 1});
  EXPECT_EQ(testing::internal::GetCapturedStderr(), "uroce: uroce0: gone\n");
}

}  // namespace
}  // namespace uroce::engine
