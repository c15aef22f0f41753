#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <vector>

// Golden captures (README.md beside this file) for tests.
namespace uroce::captures {

using Frame = std::vector<std::byte>;

/// Every .pcap file of the folder, sorted by name.
std::vector<std::filesystem::path> files();

struct Record {
  Frame frame;
  int64_t time_ns = 0;  // since the first of the file
};

/// The frames of one file in order; throws std::runtime_error when it cannot be read to its end.
std::vector<Record> records(const std::filesystem::path& file);
std::vector<Frame> frames(const std::filesystem::path& file);

}  // namespace uroce::captures
