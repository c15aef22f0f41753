// One rule for the arguments of every entry point: a pointer that must not be NULL and is, and a value that
// is none of its enumeration, are EINVAL. And whatever a verb of the control path returns when it fails,
// errno says why, as after the system call of other providers. Each line of the tables is tried.
#include "arguments.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

namespace uroce::verbs_test {

namespace {

void expect_all(std::span<const Row> table) {
  for (const Row& row : table) {
    SCOPED_TRACE(row.call);
    Objects objects;
    errno = 0;
    const int error = row.tried(objects);
    EXPECT_EQ(errno, row.expected);
    EXPECT_EQ(error, row.expected);
  }
}

TEST(Arguments, OfVerbs) { expect_all(verbs_arguments()); }
TEST(Arguments, OfExtensions) { expect_all(extensions_arguments()); }
TEST(Arguments, WhatFailsOtherwiseSetsErrno) { expect_all(failures()); }

/// Every function of both faces is in the tables, or has no argument that could be wrong.
TEST(Arguments, AreAllTried) {
  std::set<std::string> tried = {
      "ibv_get_sysfs_path",   "ibv_fork_init",    "ibv_is_fork_initialized", "ibv_get_device_list",
      "ibv_free_device_list", "mult_to_ibv_rate", "mbps_to_ibv_rate",
      "ibv_wr_opcode_str",  // not in rdma-core 44's header
  };
  for (const std::span<const Row> table : {verbs_arguments(), extensions_arguments()}) {
    for (const Row& row : table) {
      const std::string call = row.call;
      tried.insert(call.substr(0, call.find(' ')));
    }
  }
  for (const char* const path : {VERBS_SYMBOLS, UROCEDV_SYMBOLS}) {
    std::ifstream list(path);
    ASSERT_TRUE(list.is_open());
    size_t functions = 0;
    for (std::string line; std::getline(list, line);) {
      std::istringstream words(line);
      std::string name, node, kind;
      words >> name >> node >> kind;
      if (kind != "implemented") continue;
      ++functions;
      EXPECT_TRUE(tried.contains(name)) << name;
    }
    EXPECT_GT(functions, 30U);
  }
}

}  // namespace

}  // namespace uroce::verbs_test
