#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

// Golden captures (README.md beside this file) for tests.
namespace uroce::captures {

using Frame = std::vector<std::byte>;

/// Every .pcap file of the folder, sorted by name.
std::vector<std::filesystem::path> files();

/// The frames of one file in order; throws std::runtime_error when it cannot be read to its end.
std::vector<Frame> frames(const std::filesystem::path& file);

}  // namespace uroce::captures
