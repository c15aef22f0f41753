#include <gtest/gtest.h>

#include "apps/mem/layout.h"
#include "apps/mem/memory_tables.h"

namespace uroce::memory_export {
namespace {

/// Bytes in hexadecimal.
template <typename Bytes>
std::string hex(const Bytes& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string text;
  for (const std::byte byte : bytes) {
    text += kDigits[std::to_integer<unsigned>(byte) >> 4];
    text += kDigits[std::to_integer<unsigned>(byte) & 15];
  }
  return text;
}

TEST(MemoryLayout, Encode_ExpectTheDocumentedBytes) {
  EXPECT_EQ(hex(encode_request("ab")), "554d454d01000000" + std::string("6162") + std::string(92, '0'));
  const Grant grant{.address = 0x0102030405060708, .length = 0x1112131415161718, .key = 0x21222324};
  EXPECT_EQ(hex(encode(grant)),
            "554d454d01010000"
            "0102030405060708"
            "1112131415161718"
            "2122232400000000");
  EXPECT_EQ(hex(encode(Grant{.writable = true})).substr(8, 4), "0103");
  EXPECT_EQ(hex(encode(Refusal::kUnknownName)), "554d454d01030000");
  EXPECT_EQ(hex(encode(Flush{.offset = 1, .length = 2})),
            "554d454d01010000"
            "0000000000000001"
            "0000000000000002");
  EXPECT_EQ(hex(encode_flushed(28)),
            "554d454d01020000"
            "0000001c00000000");
  EXPECT_EQ(hex(encode(Entry{.name = "x", .length = 256, .writable = true})), "78" + std::string(94, '0') +
                                                                                  "0000000000000100"
                                                                                  "0300000000000000");
}

TEST(MemoryLayout, ParseWhatWasEncoded_ExpectTheSame) {
  const Grant grant{.address = 7, .length = 8, .key = 9, .writable = true};
  EXPECT_EQ(parse_grant(encode(grant)), grant);
  const Flush flush{.offset = 1ull << 40, .length = 3};
  EXPECT_EQ(parse_flush(encode(flush)), flush);
  EXPECT_EQ(parse_flushed(encode_flushed(5)), 5u);
  const Entry entry{.name = std::string(kNameMax, 'n'), .length = 5};
  EXPECT_EQ(parse_entry(encode(entry)), entry);
  EXPECT_EQ(parse_refusal(encode(Refusal::kBusy)), (std::pair{Refusal::kBusy, kVersion}));
  EXPECT_EQ(std::get<std::string>(parse_request(encode_request("a name"))), "a name");
  EXPECT_EQ(std::get<std::string>(parse_request(encode_request(""))), "");
}

TEST(MemoryLayout, RequestsThatAreNone_ExpectTheReason) {
  const RequestBytes good = encode_request("name");
  EXPECT_EQ(std::get<Refusal>(parse_request(std::span(good).first(55))), Refusal::kMalformed);
  EXPECT_EQ(std::get<Refusal>(parse_request({})), Refusal::kMalformed);
  RequestBytes bad = good;
  bad[0] = std::byte{};
  EXPECT_EQ(std::get<Refusal>(parse_request(bad)), Refusal::kMalformed);
  bad = good;
  bad[4] = std::byte{2};
  EXPECT_EQ(std::get<Refusal>(parse_request(bad)), Refusal::kOtherVersion);
  bad = good;
  bad[9] = std::byte{7};
  EXPECT_EQ(std::get<Refusal>(parse_request(bad)), Refusal::kMalformed);
  // A name without an end.
  for (size_t i = 8; i < bad.size(); ++i) bad[i] = std::byte{'a'};
  EXPECT_EQ(std::get<Refusal>(parse_request(bad)), Refusal::kMalformed);
}

TEST(MemoryLayout, MessagesOfOtherLengthOrKind_ExpectNone) {
  const FlushBytes flush = encode(Flush{});
  EXPECT_FALSE(parse_flush(std::span(flush).first(23)));
  EXPECT_FALSE(parse_flush(encode_flushed(0)));
  EXPECT_FALSE(parse_flushed(flush));
  EXPECT_FALSE(parse_grant(encode(Refusal::kBusy)));
  EXPECT_FALSE(parse_entry(EntryBytes{}));
}

TEST(MemoryLayout, Names) {
  EXPECT_TRUE(is_region_name("a b/c"));
  EXPECT_FALSE(is_region_name(""));
  EXPECT_FALSE(is_region_name(" a"));
  EXPECT_FALSE(is_region_name("a\n"));
  EXPECT_FALSE(is_region_name("\xC3\xA4"));
  EXPECT_FALSE(is_region_name(std::string(kNameMax + 1, 'a')));
}

TEST(MemoryTables, Everything_ExpectItRead) {
  const auto read = parse_memory_tables(R"(
[service]
programs = 3
[[memory]]
name = "pages"
file = "/tmp/pages"
size = "64M"
access = "write"
allow_any_host = true
[[memory]]
name = "more"
file = "more.bin"
)",
                                        "f.toml");
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_EQ(
      *read,
      (std::vector<RegionConfiguration>{
          {.name = "pages", .file = "/tmp/pages", .size = 64 << 20, .writable = true, .allow_any_host = true},
          {.name = "more", .file = "more.bin"}}));
}

TEST(MemoryTables, OtherTables_ExpectNoRegion) {
  for (const char* text : {"", "[memory]\nhugepages = false\n", "[service]\n"}) {
    const auto read = parse_memory_tables(text, "f.toml");
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_TRUE(read->empty());
  }
}

TEST(MemoryTables, Mistakes_ExpectFileLineAndKey) {
  const std::string begin = "[[memory]]\nname = \"a\"\nfile = \"f\"\n";
  const std::pair<std::string, std::string> cases[] = {
      {"[[memory]]\nfile = \"f\"\n", "f.toml:1: memory.name: is missing"},
      {"[[memory]]\nname = \"a\"\n", "f.toml:1: memory.file: is missing"},
      {begin + "colour = 3\n", "f.toml:4: memory.colour: unknown key"},
      {begin + "access = \"rw\"\n", "f.toml:4: memory.access: must be \"read\" or \"write\""},
      {begin + "access = true\n", "f.toml:4: memory.access: must be \"read\" or \"write\""},
      {begin + "allow_any_host = 1\n", "f.toml:4: memory.allow_any_host: must be true or false"},
      {begin + "size = -1\n", "f.toml:4: memory.size: must be a number of bytes"},
      {begin + "size = \"64 sheep\"\n", "f.toml:4: memory.size: must be a number of bytes"},
      {begin + begin, "f.toml:4: memory.name: two regions called \"a\""},
      {"[[memory]]\nname = \"" + std::string(48, 'a') + "\"\nfile = \"f\"\n",
       "f.toml:2: memory.name: must not be longer than 47 characters"},
      {"[[memory]]\nname = \"a\\n\"\nfile = \"f\"\n", "f.toml:2: memory.name: must be printable ASCII"},
      {"memory = [3]\n", "f.toml:1: memory: must be a list of tables: [[memory]]"},
      {begin + "[memory]\n", "f.toml:4: "},
  };
  for (const auto& [text, complaint] : cases) {
    const auto read = parse_memory_tables(text, "f.toml");
    ASSERT_FALSE(read) << text;
    EXPECT_EQ(read.error().message.substr(0, complaint.size()), complaint);
  }
}

TEST(MemoryTables, AreOfARegularFileOfBoundedDepth) {
  std::string deep = "[[memory]]\n";
  while (deep.size() < (1 << 20) - 16) deep += "a.";
  const auto parsed = parse_memory_tables(deep + "a = 1\n", "f");
  ASSERT_FALSE(parsed);
  EXPECT_TRUE(parsed.error().message.starts_with("f:2: keys of more than 16 parts"))
      << parsed.error().message;
  for (const char* path : {"/dev/zero", "/proc/self/mem"}) {
    const auto read = read_memory_tables(path);
    ASSERT_FALSE(read);
    EXPECT_TRUE(read.error().message.starts_with(path)) << read.error().message;
  }
}

}  // namespace
}  // namespace uroce::memory_export
