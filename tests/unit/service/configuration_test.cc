#include "service/configuration.h"

#include <gtest/gtest.h>

namespace uroce::testing {
namespace {

using service::parse_service_configuration;

std::string error_of(std::string_view text) {
  const auto configuration = parse_service_configuration(text, "file");
  return configuration ? "" : configuration.error().message;
}

TEST(ServiceConfiguration, DefaultsStandWithoutATable) {
  const auto configuration = parse_service_configuration("[[device]]\nname = \"a\"\n", "file");
  ASSERT_TRUE(configuration);
  EXPECT_TRUE(configuration->has_devices);
  EXPECT_EQ(configuration->quotas.programs, 1024u);
  EXPECT_FALSE(configuration->users);
  EXPECT_FALSE(configuration->idle_exit_s);
  EXPECT_EQ(configuration->mode, 0600u);
}

TEST(ServiceConfiguration, EveryKeyIsRead) {
  const auto configuration = parse_service_configuration(
      "[service]\n"
      "socket = \"/run/other.sock\"\n"
      "mode = \"0660\"\n"
      "users = [\"root\", 1000]\n"
      "idle_exit_s = 5\n"
      "nvmf = \"/dev/null\"\n"
      "memory_connections_per_client = 7\n"
      "programs = 1\n"
      "programs_per_user = 2\n"
      "numbers_per_program = 4096\n"
      "ports_per_program = 3\n"
      "ports_per_user = 5\n"
      "numbers_per_user = 8192\n"
      "groups_per_program = 4\n"
      "groups_per_user = 5\n"
      "memory_mb_per_user = 64\n"
      "descriptors_per_user = 99\n",
      "file");
  ASSERT_TRUE(configuration) << configuration.error().message;
  EXPECT_FALSE(configuration->has_devices);
  EXPECT_EQ(configuration->socket, "/run/other.sock");
  EXPECT_EQ(configuration->nvmf, "/dev/null");
  EXPECT_EQ(configuration->mode, 0660u);
  EXPECT_EQ(*configuration->users, (std::vector<uid_t>{0, 1000}));
  EXPECT_EQ(configuration->idle_exit_s, 5u);
  EXPECT_EQ(configuration->memory_connections_per_client, 7u);
  EXPECT_EQ(configuration->quotas.programs, 1u);
  EXPECT_EQ(configuration->quotas.programs_per_user, 2u);
  EXPECT_EQ(configuration->quotas.numbers_per_program, 4096u);
  EXPECT_EQ(configuration->quotas.ports_per_program, 3u);
  EXPECT_EQ(configuration->quotas.ports_per_user, 5u);
  EXPECT_EQ(configuration->quotas.numbers_per_user, 8192u);
  EXPECT_EQ(configuration->quotas.groups_per_program, 4u);
  EXPECT_EQ(configuration->quotas.groups_per_user, 5u);
  EXPECT_EQ(configuration->quotas.memory_mb_per_user, 64u);
  EXPECT_EQ(configuration->quotas.descriptors_per_user, 99u);
}

TEST(ServiceConfiguration, MistakesAreNamed) {
  EXPECT_EQ(error_of("service = 1"), "file:1: service: must be a table: [service]");
  EXPECT_EQ(error_of("[service]\nprogram = 1\nmode = 3\n"),
            "file:2: service.program: unknown key (did you mean programs?)");
  EXPECT_EQ(error_of("[service]\nprograms = 0\n"), "file:2: service.programs: must be from 1 to 4094, not 0");
  EXPECT_EQ(error_of("[service]\nmemory_connections_per_client = 257\n"),
            "file:2: service.memory_connections_per_client: must be from 1 to 256, not 257");
  for (const char* mode : {"\"0777\"", "\"0066\"", "600", "\"rw\"", "\"\""})
    EXPECT_NE(error_of(std::string("[service]\nmode = ") + mode), "") << mode;
  EXPECT_EQ(error_of("[service]\nusers = [\"no such user\"]\n"),
            "file:2: service.users: there is no user \"no such user\"");
  EXPECT_NE(error_of("[service]\nusers = 5\n"), "");
  EXPECT_NE(error_of("[service"), "");
}

}  // namespace
}  // namespace uroce::testing
