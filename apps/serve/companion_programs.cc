#include "apps/serve/companion_programs.h"

#include <fmt/format.h>

#include <cerrno>

#include "apps/mem/memory_tables.h"

namespace uroce::serve {
namespace {

/// With the devices of the service, whatever the file says of devices.
Companions::Program target(const std::string& file) {
  return {
      .name = "uroce nvmf", .arguments = {"nvmf", "--config", file, "--port", "host"}, .configuration = file};
}

Companions::Program memory_server(const std::string& file) {
  return {.name = "uroce mem serve", .arguments = {"mem", "serve", "--config", file}, .configuration = file};
}

}  // namespace

Result<std::vector<Companions::Program>> companion_programs(const std::string& file,
                                                            const service::ServiceConfiguration& settings) {
  std::vector<Companions::Program> programs;
  if (file.empty()) return programs;
  const auto regions = memory_export::read_memory_tables(file);
  if (!regions) return regions.error();
  if (!settings.nvmf.empty()) programs.push_back(target(settings.nvmf));
  if (!regions->empty()) programs.push_back(memory_server(file));
  if (!programs.empty() && settings.idle_exit_s)
    return Error{EINVAL, fmt::format("{}: service.idle_exit_s (or --idle-exit) does not go together with "
                                     "service.nvmf and [[memory]], which always use the service",
                                     file)};
  return programs;
}

}  // namespace uroce::serve
