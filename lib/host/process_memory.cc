#include "host/process_memory.h"

#include <dirent.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <memory>
#include <system_error>

namespace uroce::host {
namespace {

using Folder = std::unique_ptr<DIR, decltype([](DIR* folder) { closedir(folder); })>;

std::optional<int> number_in(std::string_view text) {
  int number = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

void for_each_number(const std::string& folder, const std::function<void(int)>& use) {
  const Folder open(opendir(folder.c_str()));
  if (open == nullptr) return;
  while (const dirent* const entry = readdir(open.get()))
    if (const auto number = number_in(entry->d_name)) use(*number);
}

void for_each_memory(int pid, const std::function<void(std::string_view name, int descriptor)>& use) {
  constexpr std::string_view kMemory = "/memfd:";
  constexpr std::string_view kGone = " (deleted)";  // as every memfd is
  for_each_number("/proc/" + std::to_string(pid) + "/fd", [&](int descriptor) {
    std::array<char, 128> target{};
    const ssize_t length =
        readlink(path_of_descriptor(pid, descriptor).c_str(), target.data(), target.size());
    if (length <= 0) return;
    std::string_view name(target.data(), static_cast<size_t>(length));
    if (!name.starts_with(kMemory)) return;
    name.remove_prefix(kMemory.size());
    if (name.ends_with(kGone)) name.remove_suffix(kGone.size());
    use(name, descriptor);
  });
}

std::string path_of_descriptor(int pid, int descriptor) {
  return "/proc/" + std::to_string(pid) + "/fd/" + std::to_string(descriptor);
}

}  // namespace uroce::host
