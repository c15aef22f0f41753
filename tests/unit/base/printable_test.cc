#include "base/values/printable.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace uroce {
namespace {

using namespace std::string_view_literals;

TEST(Printable, ForeignTexts_ExpectNothingButPrintableAscii) {
  struct Row {
    const char* what;
    std::string_view text;
    std::string_view shown;
  };
  constexpr Row kRows[]{
      {"nothing", "", ""},
      {"a name", "ib_write_bw -d uroce0", "ib_write_bw -d uroce0"},
      {"the first and the last printable character", " ~", " ~"},
      {"quotes and backslashes are the format's", R"(a"b'c\d`e)", R"(a"b'c\d`e)"},
      {"ESC: colours, a title, the cursor", "\x1b[31mRED\x1b]0;owned\x07", R"(\x1b[31mRED\x1b]0;owned\x07)"},
      {"a line of its own", "a\r\nuroce dump: forged", R"(a\x0d\x0auroce dump: forged)"},
      {"tab, backspace, DEL", "\t\b\x7f", R"(\x09\x08\x7f)"},
      {"zero", "a\0b"sv, R"(a\x00b)"},
      {"the terminal's controls of eight bits",
       "\x9b"
       "2J",
       R"(\x9b2J)"},
      {"the same as UTF-8",
       "\xc2\x9b"
       "2J",
       R"(\xc2\x9b2J)"},
      {"letters from right to left",
       "\xe2\x80\xae"
       "gpj",
       R"(\xe2\x80\xaegpj)"},
      {"UTF-8 that ends early", "\xe2\x82", R"(\xe2\x82)"},
      {"no UTF-8", "\xff\xfe\xc0\xaf", R"(\xff\xfe\xc0\xaf)"},
  };
  for (const Row& row : kRows) EXPECT_EQ(printable(row.text), row.shown) << row.what;
}

TEST(Printable, EveryByte_ExpectItOrItsNumber) {
  for (int byte = 0; byte < 256; ++byte) {
    const std::string shown = printable(std::string(1, static_cast<char>(byte)));
    if (byte >= 0x20 && byte < 0x7F) {
      EXPECT_EQ(shown, std::string(1, static_cast<char>(byte)));
    } else {
      ASSERT_EQ(shown.size(), 4u) << byte;
      EXPECT_EQ(shown.substr(0, 2), "\\x");
      EXPECT_EQ(std::stoi(shown.substr(2), nullptr, 16), byte);
    }
  }
}

TEST(Printable, Twice_ExpectTheSame) {
  const std::string once = printable("\x1b[2J \\ \"\xff\n");
  EXPECT_EQ(printable(once), once);
}

TEST(Printable, LongText_ExpectItsBeginning) {
  EXPECT_EQ(printable("abcdef", 6), "abcdef");
  EXPECT_EQ(printable("abcdefg", 6), "abcdef...");
  EXPECT_EQ(printable(std::string(100'000, '\n')).size(), 4 * kPrintableBytesMax + 3);
}

TEST(Printable, Array_ExpectWhatStandsBeforeTheFirstZero) {
  EXPECT_EQ(printable(std::array<char, 8>{'a', '\n', 'b', 0, 'c'}), "a\\x0ab");
  EXPECT_EQ(printable(std::array<char, 3>{'a', 'b', 'c'}), "abc");
}

}  // namespace
}  // namespace uroce
