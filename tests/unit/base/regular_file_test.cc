#include "base/process/regular_file.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

namespace uroce {
namespace {

class RegularFile : public testing::Test {
 protected:
  RegularFile() {
    std::string pattern = std::filesystem::temp_directory_path().string() + "/uroce-file-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    path_ = folder_ + "/file";
  }
  ~RegularFile() override { std::filesystem::remove_all(folder_); }

  [[nodiscard]] int error_of(size_t bytes_max = kTextFileBytesMax) const {
    const auto read = read_regular_file(path_, bytes_max);
    if (read) return 0;
    EXPECT_TRUE(read.error().message.starts_with(path_ + ": ")) << read.error().message;
    return read.error().code;
  }

  std::string folder_;
  std::string path_;
};

TEST_F(RegularFile, IsReadAsAWhole) {
  EXPECT_EQ(error_of(), ENOENT);
  for (const size_t bytes : {size_t{0}, size_t{1}, size_t{16384}, size_t{16385}, kTextFileBytesMax}) {
    const std::string text(bytes, 'x');
    std::ofstream(path_, std::ios::binary) << text;
    const auto read = read_regular_file(path_);
    ASSERT_TRUE(read) << read.error().message;
    EXPECT_EQ(*read, text);
  }
  std::ofstream(path_, std::ios::binary | std::ios::app) << 'x';
  EXPECT_EQ(error_of(), EFBIG);
  EXPECT_EQ(error_of(kTextFileBytesMax + 1), 0);
}

TEST_F(RegularFile, NullIsAnEmptyOne) {
  ASSERT_EQ(symlink("/dev/null", path_.c_str()), 0);
  EXPECT_EQ(error_of(), 0);
}

TEST_F(RegularFile, WithoutALengthIsReadToItsEnd) {
  ASSERT_EQ(symlink("/proc/self/status", path_.c_str()), 0);
  const auto read = read_regular_file(path_);
  ASSERT_TRUE(read) << read.error().message;
  EXPECT_NE(read->find("VmSize"), std::string::npos);
}

TEST_F(RegularFile, NothingElseIsRead) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_EQ(error_of(), EINVAL);
  for (const auto& [target, code] :
       {std::pair("/dev/zero", EINVAL), {"/proc/self/mem", EIO}, {"/tmp", EISDIR}}) {
    ASSERT_EQ(unlink(path_.c_str()), 0);
    ASSERT_EQ(symlink(target, path_.c_str()), 0);
    EXPECT_EQ(error_of(), code) << target;
  }
}

}  // namespace
}  // namespace uroce
