#pragma once

#include <array>
#include <string>
#include <string_view>

// The descriptors 0, 1 and 2 are the program's, also while they are closed.
namespace uroce::verbs {

/// While it lives no descriptor of ours gets one of those numbers: what the program prints would end up in a
/// pipe or socket of ours. To be held wherever descriptors are made.
class StandardStreamsReserved {
 public:
  StandardStreamsReserved();
  ~StandardStreamsReserved();
  StandardStreamsReserved(const StandardStreamsReserved&) = delete;
  StandardStreamsReserved& operator=(const StandardStreamsReserved&) = delete;

 private:
  std::array<bool, 3> held_{};
};

/// Whether standard error still takes lines. Not when descriptor 2 seems to be something else by now, a file
/// or a connection that got the number of a closed one: standard error is what was there when the library was
/// loaded, a terminal, or a log that is appended to.
bool is_for_messages();

/// One line on standard error, if that takes lines: the reason behind the errno that the application gets.
/// `device`: that it is about, if it is about one.
void complain(const std::string& message, std::string_view device = {});

}  // namespace uroce::verbs
