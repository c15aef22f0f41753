#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace uroce::drivers {

/// "name,key=value,...": DPDK's way to name a device. Values hold no comma.
class Devargs {
 public:
  explicit Devargs(std::string_view text);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::optional<std::string_view> value(std::string_view key) const;
  /// The value as a decimal number; nullopt when it is missing or no number.
  [[nodiscard]] std::optional<uint32_t> number(std::string_view key) const;
  /// The first key that is not among `keys`.
  [[nodiscard]] std::optional<std::string> first_not_in(std::span<const std::string_view> keys) const;
  void set(std::string key, std::string value);
  [[nodiscard]] std::string text() const;

 private:
  std::string name_;
  std::vector<std::pair<std::string, std::string>> arguments_;
};

}  // namespace uroce::drivers
