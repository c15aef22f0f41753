// What test programs spend half of their compilation on, compiled once for each: GoogleTest and the parts of
// the standard library that most of them include. A test still includes what it uses (`-Db_pch=false` shows
// whether it does).
#ifndef UROCE_TESTS_PCH_GTEST_PROGRAM_H  // g++ knows no other guard in a file that it precompiles.
#define UROCE_TESTS_PCH_GTEST_PROGRAM_H

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#endif
