#include "host/process_start.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string>
#include <string_view>
#include <system_error>

#include "base/process/descriptor.h"

namespace uroce::host {

std::optional<uint64_t> start_of_process(int pid) {
  const Descriptor file(open(("/proc/" + std::to_string(pid) + "/stat").c_str(), O_RDONLY | O_CLOEXEC));
  std::array<char, 1024> text{};
  const ssize_t length = file.ok() ? read(file.get(), text.data(), text.size()) : -1;
  if (length <= 0) return std::nullopt;
  // The name, in parentheses, may have blanks and parentheses of its own: fields count from its end on.
  std::string_view rest(text.data(), static_cast<size_t>(length));
  rest.remove_prefix(std::min(rest.rfind(')'), rest.size()));
  constexpr int kFieldsBetween = 20;
  for (int i = 0; i < kFieldsBetween; ++i) {
    const size_t blank = rest.find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    rest.remove_prefix(blank + 1);
  }
  uint64_t ticks = 0;
  const auto parsed = std::from_chars(rest.data(), rest.data() + rest.size(), ticks);
  return parsed.ec == std::errc() ? std::optional(ticks) : std::nullopt;
}

}  // namespace uroce::host
