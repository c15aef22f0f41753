#include "apps/launch/fault_command.h"

#include <fmt/format.h>

#include "apps/launch/command_line.h"
#include "apps/serve/fault_client.h"
#include "faults/breakage.h"
#include "faults/rule.h"
#include "host/control.h"

namespace uroce::launch {
namespace {

constexpr const char* kExamples =
    "Examples:\n"
    "  uroce fault add --device uroce0 --loss 1% --seed 7\n"
    "  uroce fault add --client 4711 --delay 100us --jitter 20us --for 10s\n"
    "  uroce fault list\n"
    "  uroce fault clear\n"
    "Faults are met by what programs receive, also from each other and from themselves. Programs that come\n"
    "later meet those of their device, too. In a test suite: uroce run --fault 'loss=1%,seed=7' "
    "PROGRAM.\n"
    "--client with a process that has a port of its own (no service) orders them of that process.\n";

struct Described {
  const char* key;
  const char* type;
  const char* help;
};
constexpr std::array<Described, 15> kOptions{
    {{"device", "NAME", "Packets that programs of this device receive"},
     {"qp", "N", "Packets for this queue pair"},
     {"client", "PID", "Packets that this process receives"},
     {"loss", "PERCENT", "Lost"},
     {"delay", "TIME", "Later by so much: 100us, 5ms, 1s"},
     {"jitter", "TIME", "By so much more or less than the delay; their order stays"},
     {"reorder", "PERCENT", "Held back by 50 to 150 us, so that others overtake them"},
     {"duplicate", "PERCENT", "Received twice"},
     {"corrupt", "PERCENT", "One bit wrong, so that the ICRC does not match"},
     {"ecn", "PERCENT", "Marked: congestion experienced"},
     {"nak", "KIND:PERCENT", "Requests that the responder refuses: rnr, access, invalid, operational"},
     {"rate", "RATE", "So much at most: 100Mbit, 10Gbit"},
     {"seed", "N", "Decides which packets, the same each time (1)"},
     {"after", "TIME", "Begins so much later"},
     {"for", "TIME", "Ends by itself"}}};

}  // namespace

FaultCommand::FaultCommand(CLI::App& command)
    : app_(command),
      add_(*command.add_subcommand("add", "Order a fault, and print its number")),
      list_(*command.add_subcommand("list", "Show faults, and how many packets met them")),
      clear_(*command.add_subcommand("clear", "End a fault, or all")),
      break_(*command.add_subcommand(
          "break", "Break a queue pair, its completion queues, a key, or a device, at once")) {
  app_.require_subcommand(1);
  add_.footer(kExamples);
  for (CLI::App* part : {&add_, &list_, &clear_, &break_})
    part->add_option("--socket", socket_, "Of another service than the default one")->type_name("PATH");
  for (size_t i = 0; i < kOptions.size(); ++i) {
    options_[i].key = kOptions[i].key;
    add_.add_option(fmt::format("--{}", kOptions[i].key), options_[i].value, kOptions[i].help)
        ->type_name(kOptions[i].type);
  }
  break_.add_option("--qp", broken_[0].value, "Ends in the error state (IBV_EVENT_QP_FATAL)")->type_name("N");
  break_
      .add_option("--device", broken_[1].value, "Fails (IBV_EVENT_DEVICE_FATAL), and all queue pairs with it")
      ->type_name("NAME");
  break_.add_option("--client", broken_[2].value, "The same, for this process only")->type_name("PID");
  break_
      .add_option("--key", broken_[3].value,
                  "With --client: this key of memory of that process stands for nothing any more")
      ->type_name("KEY");
  break_.add_flag("--overflow", overflow_, "With --qp: its completion queues overflow (IBV_EVENT_CQ_ERR)");
  for (CLI::App* part : {&list_, &clear_})
    part->add_option("--client", client_, "Of this process, which has a port of its own")
        ->check(CLI::Range(1u, UINT32_MAX))
        ->type_name("PID");
  list_.add_flag("--json", json_, "As JSON");
  clear_.add_option("ID", id_, "Number of the fault; without it all")->check(CLI::Range(1u, UINT32_MAX));
}

int FaultCommand::execute() const {
  const auto client = client_ != 0 ? std::optional(client_) : std::nullopt;
  if (list_.parsed()) return serve::list_faults(socket_, client, json_);
  if (clear_.parsed()) return serve::clear_fault(socket_, client, id_);
  return break_.parsed() ? break_at_once() : add();
}

int FaultCommand::break_at_once() const {
  std::string order(host::kBreakOrder);
  for (const Option& option : broken_)
    if (!option.value.empty())
      order += fmt::format("{}{}={}", order.ends_with(',') ? "" : ",", option.key, option.value);
  if (overflow_) order += ",overflow=true";
  const auto parsed = faults::parse_breakage(order);
  if (!parsed) {
    fmt::print(stderr,
               "uroce fault break: give --qp N (and --overflow), or --device NAME, --client PID or both, or "
               "--key KEY and --client PID\n");
    return kUsage;
  }
  return serve::break_object(socket_, parsed->scope.client, order);
}

int FaultCommand::add() const {
  std::string rule;
  for (const Option& option : options_) {
    if (add_.count(fmt::format("--{}", option.key)) == 0) continue;
    if (option.value.find(',') != std::string::npos) {
      fmt::print(stderr, "uroce fault add: --{} {}: must have no comma\n", option.key, option.value);
      return kUsage;
    }
    rule += fmt::format("{}{}={}", rule.empty() ? "" : ",", option.key, option.value);
  }
  const auto parsed = faults::parse_rule(rule);
  if (!parsed) {
    fmt::print(stderr, "uroce fault add: {}\n", parsed.error().message);
    return kUsage;
  }
  return serve::add_fault(socket_, *parsed);
}

}  // namespace uroce::launch
