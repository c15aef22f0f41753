#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace uroce::memory_export {

/// What is to be sent: a file, or standard input if its name is "-". What is no regular file is read as a
/// whole first, into a temporary one without a name, so that its length is known. Throws client::Failure.
class Source {
 public:
  /// At most `length_max` bytes of it are looked at.
  Source(const std::string& path, uint64_t length_max);
  ~Source();
  Source(const Source&) = delete;
  Source& operator=(const Source&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] uint64_t length() const { return length_; }
  /// The next bytes, all of them.
  void read(std::span<std::byte> bytes);

 private:
  void spool(uint64_t length_max);

  const std::string name_;
  int descriptor_ = -1;
  uint64_t length_ = 0;
  uint64_t at_ = 0;
};

/// Where received data go: standard output if the name is "-", something that is there and no regular file,
/// or a file that gets its name when it is complete. Throws client::Failure.
class Destination {
 public:
  explicit Destination(const std::string& path);
  /// Without finish() nothing is left of a file.
  ~Destination();
  Destination(const Destination&) = delete;
  Destination& operator=(const Destination&) = delete;

  void append(std::span<const std::byte> bytes);
  void finish();

 private:
  void open_temporary();

  const std::string path_;
  std::string temporary_;  // its name; empty: there is none
  int descriptor_ = -1;
};

}  // namespace uroce::memory_export
