#pragma once

#include <cstddef>
#include <cstdint>

namespace uroce::copy {

// Accesses to 8 bytes of registered memory in the CPU's byte order, by the CPU's own atomic instructions: no
// other CPU, thread or coherent device sees half of one, or comes between the two sides of a
// read-modify-write. They order everything before them and after them. Guarded like guarded_copy_to(): false
// when the memory is gone or not writable, and then nothing happened. `at` is aligned to 8 bytes.

/// Stores `swap` if `compare` is there; `original` is what was there.
bool guarded_compare_swap(std::byte* at, uint64_t compare, uint64_t swap, uint64_t& original);

bool guarded_fetch_add(std::byte* at, uint64_t add, uint64_t& original);

/// ATOMIC WRITE: a store of all 8 bytes at once.
bool guarded_store(std::byte* at, uint64_t value);

}  // namespace uroce::copy
