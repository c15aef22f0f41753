#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/stat/reading.h"

namespace uroce::statistics {

/// Keys that are no characters.
enum class TopKey : uint8_t { kUp, kDown, kPageUp, kPageDown, kHome, kEnter, kEscape, kBackspace };

/// What `uroce top` shows, without a terminal: lines of text out of readings and keys.
class TopModel {
 public:
  void update(Reading reading);
  /// False: the user wants to leave.
  bool press(char key);
  void press(TopKey key);

  struct Screen {
    std::vector<std::string> lines;
    std::optional<size_t> heading;   // line that is shown as such
    std::optional<size_t> selected;  // likewise
  };
  [[nodiscard]] Screen screen(size_t width, size_t height);

  [[nodiscard]] double interval_s() const { return interval_s_; }

 private:
  struct Row {
    size_t process;  // in the reading
    host::QueuePairRow row;
    double messages_s;  // both directions
    double bytes_s;
    double retries_s;
  };
  using Name = std::pair<int, uint32_t>;  // process, queue pair
  struct Column;

  static const std::vector<Column>& columns();
  [[nodiscard]] std::vector<Row> rows() const;
  [[nodiscard]] bool matches(const Row& row) const;
  [[nodiscard]] std::string line_of(const Row& row) const;
  [[nodiscard]] std::string summary(size_t rows) const;
  void show_rows(Screen& screen, size_t height);
  void show_opened(Screen& screen) const;
  void show_counters(Screen& screen) const;
  void select(std::ptrdiff_t by);

  enum class View : uint8_t { kQueuePairs, kOpened, kCounters, kHelp };

  Reading reading_;
  std::optional<Reading> earlier_;
  std::vector<Row> shown_;
  View view_ = View::kQueuePairs;
  size_t sort_ = 0;  // column
  bool ascending_ = false;
  bool paused_ = false;
  bool types_filter_ = false;
  std::string filter_;
  std::optional<Name> selected_;
  size_t first_ = 0;  // row at the top
  size_t page_ = 1;
  double interval_s_ = 1;
};

}  // namespace uroce::statistics
