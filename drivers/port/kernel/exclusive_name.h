#pragma once

#include <string>

#include "base/values/result.h"

namespace uroce::drivers {

/// A name that no other holder has: neither another process of this network namespace nor another object of
/// this process. It goes with the object, and with the process however that ends; neither a program that it
/// executes nor a child that it forks keeps it. Any thread.
class ExclusiveName {
 public:
  /// `name` may be long. The error's message begins a sentence that the thing's name ends: "another process
  /// uses" (EBUSY), or why that cannot be known (EMFILE, ...).
  static Result<ExclusiveName> take(const std::string& name);

  ExclusiveName() = default;
  ExclusiveName(ExclusiveName&& other) noexcept;
  ExclusiveName& operator=(ExclusiveName&& other) noexcept;
  ~ExclusiveName();

 private:
  explicit ExclusiveName(std::string name) : name_(std::move(name)) {}
  std::string name_;  // empty: none
};

}  // namespace uroce::drivers
