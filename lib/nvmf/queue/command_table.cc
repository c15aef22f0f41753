#include "nvmf/queue/command_table.h"

#include <array>

#include "nvmf/format/fabrics.h"
#include "nvmf/queue/admin_commands.h"
#include "nvmf/queue/fabrics_commands.h"
#include "nvmf/queue/io_commands.h"

namespace uroce::nvmf {

namespace {

constexpr uint32_t kReads = kEffectSupported;
constexpr uint32_t kChanges = kEffectSupported | kEffectBlockContents;

constexpr std::array kAdmin = {
    CommandRow{.code = 0x02,
               .name = "Get Log Page",
               .direction = Direction::kToHost,
               .discovery = true,
               .check = check_get_log_page,
               .execute = get_log_page},
    CommandRow{.code = 0x06,
               .name = "Identify",
               .direction = Direction::kToHost,
               .discovery = true,
               .check = check_identify,
               .execute = identify},
    CommandRow{.code = 0x08, .name = "Abort", .execute = abort_command},
    CommandRow{.code = 0x09, .name = "Set Features", .discovery = true, .execute = set_features},
    CommandRow{.code = 0x0A,
               .name = "Get Features",
               .direction = Direction::kToHost,
               .discovery = true,
               .check = check_get_features,
               .execute = get_features},
    CommandRow{.code = 0x0C,
               .name = "Asynchronous Event Request",
               .discovery = true,
               .execute = async_event_request},
    CommandRow{.code = 0x18, .name = "Keep Alive", .discovery = true, .execute = keep_alive},
};

constexpr std::array kIo = {
    CommandRow{.code = 0x00, .name = "Flush", .check = check_flush, .execute = flush},
    CommandRow{.code = 0x01,
               .name = "Write",
               .direction = Direction::kFromHost,
               .effects = kChanges,
               .fused_second = true,
               .counted = CommandRow::Counted::kWrite,
               .check = check_write,
               .execute = write},
    CommandRow{.code = 0x02,
               .name = "Read",
               .direction = Direction::kToHost,
               .effects = kReads,
               .counted = CommandRow::Counted::kRead,
               .check = check_read,
               .execute = read},
    CommandRow{.code = 0x05,
               .name = "Compare",
               .direction = Direction::kFromHost,
               .effects = kReads,
               .fused_first = true,
               .counted = CommandRow::Counted::kRead,
               .check = check_compare,
               .execute = examine,
               .go_on = compare_piece},
    CommandRow{.code = 0x08,
               .name = "Write Zeroes",
               .effects = kChanges,
               .check = check_write_zeroes,
               .execute = write_zeroes},
    CommandRow{.code = 0x09,
               .name = "Dataset Management",
               .direction = Direction::kFromHost,
               .effects = kChanges,
               .check = check_deallocate,
               .execute = deallocate,
               .go_on = deallocate_next},
    CommandRow{.code = 0x0C,
               .name = "Verify",
               .effects = kReads,
               .counted = CommandRow::Counted::kRead,
               .check = check_verify,
               .execute = examine,
               .go_on = verify_piece},
};

constexpr std::array kFabrics = {
    CommandRow{.code = static_cast<uint8_t>(FabricsType::kPropertySet),
               .name = "Property Set",
               .execute = set_property},
    CommandRow{.code = static_cast<uint8_t>(FabricsType::kConnect),
               .name = "Connect",
               .direction = Direction::kFromHost,
               .check = check_connect,
               .execute = connect},
    CommandRow{.code = static_cast<uint8_t>(FabricsType::kPropertyGet),
               .name = "Property Get",
               .execute = get_property},
    CommandRow{
        .code = static_cast<uint8_t>(FabricsType::kDisconnect), .name = "Disconnect", .execute = disconnect},
};

}  // namespace

std::span<const CommandRow> admin_commands() { return kAdmin; }
std::span<const CommandRow> io_commands() { return kIo; }
std::span<const CommandRow> fabrics_commands() { return kFabrics; }

const CommandRow* find_command(std::span<const CommandRow> table, uint8_t code) {
  for (const CommandRow& row : table)
    if (row.code == code) return &row;
  return nullptr;
}

}  // namespace uroce::nvmf
