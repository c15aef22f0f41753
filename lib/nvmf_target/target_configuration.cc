#include "nvmf_target/target_configuration.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <thread>

#include "base/values/printable.h"
#include "engine/configuration/table_keys.h"
#include "engine/configuration/toml_document.h"
#include "nvmf/format/names.h"
#include "nvmf/subsystem/options.h"

namespace uroce::nvmf_target {
namespace {

using configuration::Complaint;
using configuration::Complaints;
using configuration::Key;
using configuration::read_keys;
using configuration::store_flag;
using configuration::store_integer;
using configuration::store_integers;
using configuration::store_size;
using configuration::store_string;
using configuration::store_strings;

constexpr size_t kNqnBytesMax = 223;
constexpr size_t kSerialBytesMax = 20;
constexpr size_t kModelBytesMax = 40;

/// 32 hexadecimal digits; hyphens are passed over.
Complaint store_name128(const toml::node& value, std::array<uint8_t, 16>& to) {
  constexpr const char* kForm = "must be a string of 32 hexadecimal digits, with or without hyphens";
  const auto* text = value.as_string();
  if (text == nullptr) return kForm;
  std::string digits = text->get();
  std::erase(digits, '-');
  if (digits.size() != 2 * to.size()) return kForm;
  for (size_t i = 0; i < to.size(); ++i) {
    const char* begin = digits.data() + 2 * i;
    const auto [stop, error] = std::from_chars(begin, begin + 2, to[i], 16);
    if (error != std::errc{} || stop != begin + 2) return kForm;
  }
  if (std::ranges::all_of(to, [](uint8_t byte) { return byte == 0; })) return "must not be zero";
  return std::nullopt;
}

/// One run over a document.
class Reader {
 public:
  Reader(const toml::table& document, const std::string& origin) : document_(document), complaints_(origin) {}

  Result<TargetConfiguration> read() {
    const toml::node* nvmf = document_.get("nvmf");
    if (nvmf == nullptr || nvmf->as_table() == nullptr) {
      complaints_.add(nvmf == nullptr ? document_.source() : nvmf->source(), "nvmf",
                      "must be a table: [nvmf]");
    } else {
      read_target(*nvmf->as_table());
    }
    if (!complaints_.first().empty()) return Error{EINVAL, complaints_.first()};
    return std::move(configuration_);
  }

 private:
  using Row = void (Reader::*)(const toml::table& table);

  /// A key that is a list of tables.
  Key rows(std::string_view name, const char* path, Row row, bool required = false) {
    return {name,
            [this, path, row](const toml::node& value) -> Complaint {
              const toml::array* list = value.as_array();
              const auto is_table = [](const toml::node& element) { return element.is_table(); };
              if (list == nullptr || !std::all_of(list->begin(), list->end(), is_table))
                return fmt::format("must be a list of tables: [[{}]]", path);
              for (const toml::node& element : *list) (this->*row)(*element.as_table());
              return std::nullopt;
            },
            required};
  }

  void read_target(const toml::table& table) {
    nvmf::RdmaOptions& to = configuration_.transport;
    const int64_t cores = std::max(1u, std::thread::hardware_concurrency());
    const Key keys[] = {
        {"cores", [&](const auto& value) { return store_integers(value, to.cores, cores - 1); }},
        {"in_capsule_bytes", [&](const auto& value) { return store_in_capsule(value); }},
        {"data_bytes_max", [&](const auto& value) { return store_data_bytes(value); }},
        {"queue_entries",
         [&](const auto& value) { return store_integer(value, to.io_entries_max, 2, 4096); }},
        {"queues", [&](const auto& value) { return store_integer(value, to.queues_max, 2, 65536); }},
        {"queues_per_host",
         [&](const auto& value) { return store_integer(value, to.queues_per_host, 1, 65536); }},
        {"pending_queues", [&](const auto& value) { return store_integer(value, to.pending_max, 1, 65536); }},
        {"pending_queues_per_host",
         [&](const auto& value) { return store_integer(value, to.pending_per_host, 1, 65536); }},
        {"connect_timeout_s", [&](const auto& value) { return store_integer(value, to.connect_s, 1, 120); }},
        {"stall_timeout_s", [&](const auto& value) { return store_integer(value, to.stall_s, 1, 3600); }},
        {"shared_receives", [&](const auto& value) { return store_flag(value, to.shared_receives); }},
        {"shared_receive_entries",
         [&](const auto& value) { return store_integer(value, to.shared_receive_entries, 32, 1 << 16); }},
        {"small_buffers",
         [&](const auto& value) { return store_integer(value, to.small_buffers, 1, 1 << 20); }},
        {"large_buffers",
         [&](const auto& value) { return store_integer(value, to.large_buffers, 2, 1 << 16); }},
        {"idle_us", [&](const auto& value) { return store_integer(value, to.idle_us, 0, 10'000'000); }},
        {"statistics_s",
         [&](const auto& value) { return store_integer(value, configuration_.statistics_s, 0, 86'400); }},
        rows("listen", "nvmf.listen", &Reader::read_listen, true),
        rows("subsystem", "nvmf.subsystem", &Reader::read_subsystem, true),
    };
    read_keys(table, "nvmf", keys, complaints_);
  }

  Complaint store_in_capsule(const toml::node& value) {
    uint32_t& to = configuration_.transport.in_capsule_bytes;
    if (Complaint complaint = store_integer(value, to, 0, nvmf::RdmaOptions::kInCapsuleBytesMax))
      return complaint;
    return to % 16 == 0 ? Complaint{} : "must be a multiple of 16";
  }

  Complaint store_data_bytes(const toml::node& value) {
    std::optional<uint64_t> bytes;
    if (Complaint complaint = store_size(value, bytes)) return complaint;
    if (*bytes < 8192 || *bytes > (1 << 20) || !std::has_single_bit(*bytes))
      return "must be a power of two from 8 KiB to 1 MiB";
    configuration_.transport.data_bytes_max = static_cast<uint32_t>(*bytes);
    return std::nullopt;
  }

  void read_listen(const toml::table& table) {
    ListenConfiguration to{.where = complaints_.place(table.source(), "nvmf.listen")};
    const Key keys[] = {
        {"address", [&](const auto& value) { return store_string(value, to.address, 64); }, true},
        {"port", [&](const auto& value) { return store_integer(value, to.port, 1, 65535); }},
    };
    read_keys(table, "nvmf.listen", keys, complaints_);
    for (const ListenConfiguration& other : configuration_.listens) {
      if (other.address == to.address && other.port == to.port)
        complaints_.add(table.source(), "nvmf.listen", "the same address and port twice");
    }
    configuration_.listens.push_back(std::move(to));
  }

  static Complaint store_nqn(const toml::node& value, std::string& to) {
    if (Complaint complaint = store_string(value, to, kNqnBytesMax)) return complaint;
    return nvmf::is_nqn(to) ? Complaint{} : "is no NQN: nqn.YYYY-MM.DOMAIN:NAME";
  }

  static Complaint store_hosts(const toml::node& value, std::vector<std::string>& to) {
    if (Complaint complaint = store_strings(value, to, kNqnBytesMax)) return complaint;
    const auto wrong = std::ranges::find_if_not(to, nvmf::is_nqn);
    return wrong == to.end() ? Complaint{} : fmt::format("\"{}\" is no NQN: nqn.YYYY-MM.DOMAIN:NAME", *wrong);
  }

  void read_subsystem(const toml::table& table) {
    subsystem_ = {.model = "uroce", .where = complaints_.place(table.source(), "nvmf.subsystem")};
    SubsystemConfiguration& to = subsystem_;
    const Key keys[] = {
        {"nqn", [&](const auto& value) { return store_nqn(value, to.nqn); }, true},
        {"serial", [&](const auto& value) { return store_string(value, to.serial, kSerialBytesMax); }},
        {"model", [&](const auto& value) { return store_string(value, to.model, kModelBytesMax); }},
        {"hosts", [&](const auto& value) { return store_hosts(value, to.hosts); }},
        {"allow_any_host", [&](const auto& value) { return store_flag(value, to.allow_any_host); }},
        {"io_queues", [&](const auto& value) { return store_integer(value, to.io_queues_max, 1, 1024); }},
        rows("namespace", "nvmf.subsystem.namespace", &Reader::read_namespace),
    };
    read_keys(table, "nvmf.subsystem", keys, complaints_);
    if (to.serial.empty()) to.serial = derived_serial(to.nqn);
    // The key that was meant to allow a host may be the one that is wrong.
    if (to.hosts.empty() && !to.allow_any_host && complaints_.first().empty())
      complaints_.add(table.source(), "nvmf.subsystem.hosts",
                      "no host may connect: name hosts, or allow_any_host = true");
    for (const SubsystemConfiguration& other : configuration_.subsystems) {
      if (other.nqn == to.nqn)
        complaints_.add(table.source(), "nvmf.subsystem.nqn", "two subsystems with this name");
    }
    configuration_.subsystems.push_back(std::move(to));
  }

  /// A serial number that follows from the name: hosts tell paths to one subsystem by it.
  static std::string derived_serial(const std::string& nqn) {
    const std::array<uint8_t, 16> uuid = nvmf::derived_uuid(nqn, 0);
    std::string serial;
    for (size_t i = 0; i < 8; ++i) serial += fmt::format("{:02x}", uuid[i]);
    return serial;
  }

  void read_namespace(const toml::table& table) {
    NamespaceConfiguration to;
    to.where = complaints_.place(table.source(), "nvmf.subsystem.namespace");
    drivers::BlockSpecification& device = to.device;
    const Key keys[] = {
        {"nsid", [&](const auto& value) { return store_integer(value, to.nsid, 1, nvmf::kNsidMax); }, true},
        {"driver", [&](const auto& value) { return store_string(value, device.driver, 32); }, true},
        {"path", [&](const auto& value) { return store_string(value, device.path, 4095); }},
        {"size", [&](const auto& value) { return store_size(value, device.size_bytes); }},
        {"block_size", [&](const auto& value) { return store_block_size(value, device); }},
        {"memory_node",
         [&](const auto& value) { return store_integer(value, device.memory_node.emplace(), 0, 1023); }},
        {"read_only", [&](const auto& value) { return store_flag(value, device.read_only); }},
        {"uuid", [&](const auto& value) { return store_name128(value, to.uuid); }},
        {"nguid", [&](const auto& value) { return store_name128(value, to.nguid); }},
        {"ana_group",
         [&](const auto& value) { return store_integer(value, to.ana_group, 1, nvmf::kAnaGroupMax); }},
    };
    read_keys(table, "nvmf.subsystem.namespace", keys, complaints_);
    for (const NamespaceConfiguration& other : subsystem_.namespaces) {
      if (other.nsid == to.nsid)
        complaints_.add(table.source(), "nvmf.subsystem.namespace.nsid", "two namespaces with this number");
    }
    subsystem_.namespaces.push_back(std::move(to));
  }

  static Complaint store_block_size(const toml::node& value, drivers::BlockSpecification& device) {
    const auto* number = value.as_integer();
    if (number == nullptr || (number->get() != 512 && number->get() != 4096)) return "must be 512 or 4096";
    device.block_bytes = static_cast<uint32_t>(number->get());
    return std::nullopt;
  }

  const toml::table& document_;
  Complaints complaints_;
  TargetConfiguration configuration_;
  SubsystemConfiguration subsystem_;  // the one that is being read
};

}  // namespace

Result<TargetConfiguration> parse_target_configuration(std::string_view text, const std::string& origin) {
  const Result<toml::table> document = configuration::parse_document(text, origin);
  if (!document) return document.error();
  return Reader(*document, origin).read();
}

Result<TargetConfiguration> read_target_configuration(const std::string& path) {
  const Result<std::string> text = read_regular_file(path);
  return text ? parse_target_configuration(*text, path) : text.error();
}

}  // namespace uroce::nvmf_target
