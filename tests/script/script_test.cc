// Performs the scripts that it is given. With --wrong: every case has to fail, at the line that says `#!
// why`, for that reason.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "performance.h"

namespace uroce::script {
namespace {

/// What went wrong, if anything did.
std::optional<Failure> failure_of(const Case& script) {
  try {
    Performance().perform(script);
  } catch (const Failure& failure) {
    return failure;
  }
  return std::nullopt;
}

bool comes_true(const Case& script) {
  const auto failure = failure_of(script);
  if (failure) std::printf("%s\n    in the case: %s\n", failure->what(), script.name.c_str());
  return !failure;
}

bool fails_as_it_says(const Case& script, const std::map<int, std::string>& faults) {
  const auto failure = failure_of(script);
  const auto fault = failure ? faults.find(failure->line) : faults.end();
  if (fault != faults.end() && std::string(failure->what()).find(fault->second) != std::string::npos)
    return true;
  std::printf("%s:%d: %s\n    %s\n", script.place.file.c_str(), script.place.line, script.name.c_str(),
              failure ? failure->what() : "came true, which it must not");
  return false;
}

int perform(const std::vector<std::string>& files, bool wrong) {
  size_t cases = 0;
  size_t failed = 0;
  for (const std::string& file : files) {
    const Script script = read_script(file);
    for (const Case& one : script.cases) {
      ++cases;
      failed += (wrong ? fails_as_it_says(one, script.faults) : comes_true(one)) ? 0 : 1;
    }
  }
  std::printf("%zu cases, %zu failed\n", cases, failed);
  return cases == 0 || failed > 0 ? 1 : 0;
}

}  // namespace
}  // namespace uroce::script

int main(int argc, char** argv) try {
  std::vector<std::string> files(argv + 1, argv + argc);
  const bool wrong = !files.empty() && files[0] == "--wrong";
  if (wrong) files.erase(files.begin());
  return uroce::script::perform(files, wrong);
} catch (const std::exception& error) {
  std::printf("%s\n", error.what());
  return 1;
}
