#include "apps/mem/commands.h"

#include <fmt/format.h>

#include <functional>

#include "apps/mem/local_file.h"
#include "client/channel.h"
#include "client/failure.h"

namespace uroce::memory_export {
namespace {

using client::Failure;

constexpr int kFailed = 1;
constexpr int kBySignal = 128;

int run(const char* command, const std::function<void()>& body) {
  client::note_interruptions();
  try {
    body();
    return 0;
  } catch (const client::Interrupted& interrupted) {
    return kBySignal + interrupted.signal;
  } catch (const std::exception& error) {
    fmt::print(stderr, "uroce mem {}: {}\n", command, error.what());
    return kFailed;
  }
}

/// How much of the region stands behind the transfer's offset. Throws Failure.
uint64_t room_of(const RemoteRegion& region, const Transfer& transfer) {
  if (transfer.offset > region.length())
    throw Failure(fmt::format("\"{}\" has {} bytes, --offset is {}", transfer.region, region.length(),
                              transfer.offset));
  return region.length() - transfer.offset;
}

Failure does_not_fit(const Transfer& transfer, const RemoteRegion& region, const std::string& what) {
  return Failure(fmt::format("\"{}\" has {} bytes, of which {} are behind --offset: {} do not fit",
                             transfer.region, region.length(), region.length() - transfer.offset, what));
}

std::vector<Entry> entries_of(const ServerPlace& server) {
  RemoteRegion directory(server, "");
  std::vector<std::byte> bytes;
  directory.read(0, directory.length(), [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  std::vector<Entry> entries;
  for (std::span<const std::byte> rest(bytes); !rest.empty();) {
    const auto entry = parse_entry(rest);
    if (!entry) throw Failure(fmt::format("{}: the directory is not understood", server.text()));
    entries.push_back(*entry);
    rest = rest.subspan(EntryBytes{}.size());
  }
  return entries;
}

}  // namespace

int list(const ServerPlace& server) {
  return run("list", [&] {
    const std::vector<Entry> entries = entries_of(server);
    fmt::print("{:<{}} {:>16} {}\n", "NAME", kNameMax, "BYTES", "ACCESS");
    for (const Entry& entry : entries)
      fmt::print("{:<{}} {:>16} {}\n", entry.name, kNameMax, entry.length, entry.writable ? "write" : "read");
  });
}

int get(const Transfer& transfer) {
  return run("get", [&] {
    RemoteRegion region(transfer.server, transfer.region);
    const uint64_t room = room_of(region, transfer);
    const uint64_t length = transfer.length.value_or(room);
    if (length > room) throw does_not_fit(transfer, region, fmt::format("{} bytes", length));
    Destination destination(transfer.file);
    region.read(transfer.offset, length,
                [&](std::span<const std::byte> piece) { destination.append(piece); });
    destination.finish();
  });
}

int put(const Transfer& transfer) {
  return run("put", [&] {
    RemoteRegion region(transfer.server, transfer.region);
    if (!region.writable()) throw Failure(fmt::format("\"{}\" is read-only", transfer.region));
    const uint64_t room = room_of(region, transfer);
    // One byte more than there is room for shows that it is too long.
    Source source(transfer.file, transfer.length.value_or(room + 1));
    if (transfer.length && source.length() < *transfer.length)
      throw Failure(fmt::format("{} has {} bytes only, --length is {}", source.name(), source.length(),
                                *transfer.length));
    if (source.length() > room) throw does_not_fit(transfer, region, "those of " + source.name());
    region.write(transfer.offset, source.length(), [&](std::span<std::byte> piece) { source.read(piece); });
    region.flush(transfer.offset, source.length());
  });
}

}  // namespace uroce::memory_export
