#pragma once

#include <cstddef>

namespace uroce::copy {

// The copy loops behind kinds(); each has the form of CopyFunction. The streaming ones store whole cache
// lines of the destination with non-temporal stores and its edges with ordinary ones, and leave the sfence to
// the caller.

void copy_ordinary(std::byte* to, const std::byte* from, size_t length);
void copy_string(std::byte* to, const std::byte* from, size_t length);
void copy_non_temporal_128(std::byte* to, const std::byte* from, size_t length);
void copy_non_temporal_256(std::byte* to, const std::byte* from, size_t length);  // needs AVX2
void copy_non_temporal_512(std::byte* to, const std::byte* from, size_t length);  // needs AVX-512F

}  // namespace uroce::copy
