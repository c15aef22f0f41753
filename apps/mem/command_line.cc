#include "apps/mem/command_line.h"

#include <fmt/format.h>

#include <cerrno>

#include "apps/mem/serve_program.h"

namespace uroce::memory_export {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce mem list\n"
    "  uroce mem put pages dump.bin\n"
    "  uroce mem get --server 192.0.2.7 --offset 4K --length 512 pages | xxd\n"
    "  uroce mem serve --config configs/serve.toml\n"
    "A memory server is a part of the host's service that has tables [[memory]] in its file. Devices are\n"
    "those of the host's service, or what UROCE_CONFIG says: uroce run --interface eth0 uroce mem list.\n";

}  // namespace

CommandLine::CommandLine(CLI::App& command)
    : list_(*command.add_subcommand("list", "Show the regions of a memory server")),
      get_(*command.add_subcommand("get", "Read a region")),
      put_(*command.add_subcommand("put", "Write a region, and return when the data are in its file")),
      serve_(*command.add_subcommand("serve", "Export what the tables [[memory]] of a file say")) {
  command.require_subcommand(1);
  command.footer(kExamples);
  for (CLI::App* client : {&list_, &get_, &put_})
    client->add_option("--server", server_, "The memory server; default: of this host")
        ->type_name("HOST[:PORT]");
  add_transfer(get_, "Where the data go; -: standard output, the default");
  add_transfer(put_, "Where the data come from; -: standard input, the default");
  add_serve();
}

void CommandLine::add_transfer(CLI::App& command, const char* file) {
  command.add_option("NAME", transfer_.region, "The region")->required();
  command.add_option("FILE", transfer_.file, file);
  command.add_option("--offset", transfer_.offset, "Where to begin in the region; default: 0")
      ->transform(CLI::AsSizeValue(false))
      ->type_name("BYTES");
  command.add_option("--length", length_, "How much; default: all")
      ->transform(CLI::AsSizeValue(false))
      ->check(CLI::PositiveNumber)
      ->type_name("BYTES");
}

void CommandLine::add_serve() {
  serve_.add_option("--config", configuration_, "TOML file with tables [[memory]]")
      ->required()
      ->type_name("FILE");
  serve_.add_option("--listen", port_, "Port of rdma_cm")
      ->check(CLI::Range(1, 65535))
      ->capture_default_str()
      ->type_name("PORT");
}

Result<Transfer> CommandLine::transfer() const {
  Transfer transfer = transfer_;
  if (length_ != 0) transfer.length = length_;
  if (!server_.empty()) {
    const auto place = ServerPlace::parse(server_);
    if (!place) return Error{EINVAL, fmt::format("--server {}: must be HOST or HOST:PORT", server_)};
    transfer.server = *place;
  }
  if (!list_.parsed() && !is_region_name(transfer.region))
    return Error{EINVAL, fmt::format("NAME: a region's name is 1 to {} printable characters", kNameMax)};
  return transfer;
}

Result<int> CommandLine::run() const {
  if (serve_.parsed()) return serve(configuration_, port_);
  const auto wanted = transfer();
  if (!wanted) return wanted.error();
  if (list_.parsed()) return list(wanted->server);
  return get_.parsed() ? get(*wanted) : put(*wanted);
}

}  // namespace uroce::memory_export
