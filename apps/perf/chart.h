#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace uroce::perf {

/// One line of a chart. All values are positive.
struct Series {
  struct Point {
    double x = 0;
    double y = 0;
  };
  std::string name;
  size_t colour = 0;  // index into a palette
  bool dashed = false;
  std::vector<Point> points;
};

/// A chart with logarithmic axes; x is a number of bytes.
struct Chart {
  std::string title;
  std::string y_label;
  std::vector<Series> series;
};

/// The charts side by side under one headline, as a whole SVG document.
std::string svg_of(const std::string& headline, const std::vector<Chart>& charts);

}  // namespace uroce::perf
