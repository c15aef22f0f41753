#include "apps/info/info.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>

#include <cerrno>
#include <cstring>

#include "apps/info/capabilities.h"
#include "apps/info/machine.h"
#include "apps/launch/device_files.h"
#include "apps/launch/private_mounts.h"
#include "apps/launch/verbs_library.h"
#include "client/failure.h"
#include "client/verbs_device.h"
#include "client/verbs_objects.h"
#include "copy/kind.h"
#include "verbs/control/port_facts.h"
#include "wire/icrc/short.h"
#include "wire/icrc/wide.h"

namespace uroce::info {
namespace {

void row(std::string_view name, const std::string& value) { fmt::print("  {:<18}{}\n", name, value); }

void print_gids(ibv_context& context, uint8_t port, int table_length) {
  for (int index = 0; index < table_length; ++index) {
    ibv_gid_entry entry{};
    if (ibv_query_gid_ex(&context, port, static_cast<uint32_t>(index), &entry, 0) != 0) continue;
    row(fmt::format("  GID {}", index),
        fmt::format("{}{}", client::text_of(entry.gid),
                    entry.gid_type == IBV_GID_TYPE_ROCE_V2 ? " (RoCE v2)" : ""));
  }
}

/// Nothing when the verbs are not ours.
void print_facts(ibv_context& context, uint8_t port) {
  const auto facts = reinterpret_cast<decltype(&uroce_port_facts)>(
      dlvsym(RTLD_DEFAULT, "uroce_port_facts", "UROCE_PRIVATE_" UROCE_VERSION));
  if (facts == nullptr) return;
  const auto print = [](void*, const char* name, const char* value) {
    row(fmt::format("  {}", name), value);
  };
  facts(&context, port, print, nullptr);
}

void print_port(ibv_context& context, uint8_t port) {
  ibv_port_attr attributes{};
  if (const int error = ibv_query_port(&context, port, &attributes)) {
    row(fmt::format("port {}", port), std::strerror(error));
    return;
  }
  row(fmt::format("port {}", port),
      fmt::format("{}, path MTU {} (at most {})", ibv_port_state_str(attributes.state),
                  client::bytes_of(attributes.active_mtu), client::bytes_of(attributes.max_mtu)));
  print_facts(context, port);
  print_gids(context, port, attributes.gid_tbl_len);
}

void print_limits(const ibv_device_attr& limits) {
  row("firmware", limits.fw_ver);
  row("queue pairs", fmt::format("{}, {} requests per queue, {} segments per request", limits.max_qp,
                                 limits.max_qp_wr, limits.max_sge));
  row("completion queues", fmt::format("{}, {} entries each", limits.max_cq, limits.max_cqe));
  row("memory regions", fmt::format("{}, {} GiB each", limits.max_mr, limits.max_mr_size >> 30));
  row("READs at once", fmt::format("{} per queue pair", limits.max_qp_rd_atom));
}

bool print_capabilities(ibv_context& context, const char* device) {
  constexpr std::string_view kPlain = "orig_attr.";
  try {
    const Advertised advertised = ask(context);
    fmt::print("  capabilities, and the tests that exercise them\n");
    for (const Capability& capability : capabilities()) {
      const std::string value = value_of(capability, advertised);
      std::string_view name = capability.name;
      if (name.starts_with(kPlain)) name.remove_prefix(kPlain.size());
      if (!value.empty()) fmt::print("    {:<48}{:<22}{}\n", name, value, capability.test);
    }
    return true;
  } catch (const client::Failure& failure) {
    fmt::print(stderr, "uroce info: {}: {}\n", device, failure.what());
    return false;
  }
}

bool print_device(ibv_device& device, bool verbose) {
  const char* name = ibv_get_device_name(&device);
  fmt::print("device {}\n", name);
  const client::Context context(ibv_open_device(&device));
  if (!context) {
    fmt::print(stderr, "uroce info: cannot open device {}: {}\n", name, std::strerror(errno));
    return false;
  }
  ibv_device_attr limits{};
  if (const int error = ibv_query_device(context.get(), &limits)) {
    fmt::print(stderr, "uroce info: ibv_query_device of {}: {}\n", name, std::strerror(error));
    return false;
  }
  for (uint8_t port = 1; port <= limits.phys_port_cnt; ++port) print_port(*context, port);
  print_limits(limits);
  const bool good = !verbose || print_capabilities(*context, name);
  fmt::print("\n");
  return good;
}

bool print_devices(bool verbose) {
  int count = 0;
  errno = 0;
  const client::DeviceList devices(ibv_get_device_list(&count));
  if (!devices) {
    fmt::print(stderr, "uroce info: ibv_get_device_list: {}\n", std::strerror(errno));
    return false;
  }
  if (count == 0) fmt::print("no device\n\n");
  bool all_good = true;
  for (int i = 0; i < count; ++i) all_good &= print_device(*devices[static_cast<size_t>(i)], verbose);
  return all_good;
}

void print_configuration(const engine::Configuration& configuration) {
  fmt::print("configuration\n");
  for (const engine::DeviceConfiguration& device : configuration.devices) {
    row(device.name,
        fmt::format(
            "port {}{}{}", device.port, device.mtu ? fmt::format(", link MTU {}", *device.mtu) : "",
            device.dmadev.empty() ? "" : fmt::format(", copies by {}", fmt::join(device.dmadev, " and "))));
  }
  const bool dedicated = configuration.poller_mode == engine::PollerMode::kDedicated;
  std::string cores;
  for (const uint32_t core : configuration.cores)
    cores += fmt::format("{}{}", cores.empty() ? "" : ", ", core);
  row("pollers",
      fmt::format("{} per device, {}", configuration.pollers_per_device,
                  dedicated ? "dedicated (threads that do nothing else)"
                            : fmt::format("inline (turned by the program's calls, by a thread after {} us)",
                                          configuration.takeover_us)));
  row("cores", cores.empty() ? "any" : cores);
  fmt::print("\n");
}

std::string size_of_page(uint64_t kib) {
  return kib >= 1 << 20 ? fmt::format("{} GiB", kib >> 20) : fmt::format("{} MiB", kib >> 10);
}

std::string copy_text(copy::Kind kind) {
  const copy::KindRow* chosen = copy::find_kind(kind);
  if (chosen == nullptr) return "this CPU lacks the configured kind";
  if (kind != copy::Kind::kAuto) return std::string(chosen->name);
  // What kAuto stands for on this CPU: the kind that has nothing but that copy.
  const auto name_of = [](copy::CopyFunction function) {
    for (const copy::KindRow& row : copy::kinds()) {
      if (row.kind != copy::Kind::kAuto && row.hot == function && row.cold == function) return row.name;
    }
    return std::string_view("its own");
  };
  return fmt::format("auto: {} where hot, {} where cold", name_of(chosen->hot), name_of(chosen->cold));
}

std::string icrc_text() {
  if (!wire::has_short_icrc()) return "ISA-L";
  if (!wire::has_wide_icrc_256())
    return fmt::format("folding by PCLMULQDQ up to {} bytes, ISA-L beyond", wire::kShortIcrcBytesMax);
  return fmt::format("folding by PCLMULQDQ, by VPCLMULQDQ in {} bits from {} bytes on",
                     wire::has_wide_icrc_512() ? 512 : 256, wire::kWideIcrcBytesMin);
}

std::string device_files_text(const engine::Configuration& configuration) {
  const Result<launch::DeviceFiles> files =
      launch::device_files(configuration, engine::networks_of(configuration));
  const Status status = files ? launch::can_show_device_files(*files) : Status(files.error());
  return status ? "shown by 'uroce run' to its program"
                : fmt::format("not shown by 'uroce run': {}", status.error().message);
}

void print_machine(const engine::Configuration& configuration) {
  fmt::print("machine\n");
  row("processor", processor_name());
  row("usable CPUs", usable_cpus());
  row("instructions", instruction_sets());
  row("ICRC", icrc_text());
  row("copy", copy_text(configuration.copy_kind));
  bool any = false;
  for (const Hugepages& pages : hugepages()) {
    any |= pages.free != 0;
    row(fmt::format("{} pages", size_of_page(pages.page_kib)),
        fmt::format("{} free of {}", pages.free, pages.total));
  }
  row("hugepages", !configuration.hugepages ? "not used: the configuration says so"
                   : any                    ? "used by DPDK ports and large tables"
                                            : "not used: none is free");
  row("device files", device_files_text(configuration));
  row("DPDK", UROCE_DPDK_VERSION);
  row("verbs library", launch::verbs_library());
}

}  // namespace

int run(const engine::Configuration& configuration, bool verbose) {
  const bool good = print_devices(verbose);
  print_configuration(configuration);
  print_machine(configuration);
  return good ? 0 : 1;
}

}  // namespace uroce::info
