#pragma once

#include <cstddef>
#include <cstdint>
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

/// How values of an axis are placed. kNines: 1, 10, 100 of it are the percentiles 0, 90, 99.
enum class Scale : uint8_t { kBytes, kLogarithmic, kNines, kLinear };

/// A chart; a linear axis begins at 0.
struct Chart {
  std::string title;
  std::string y_label;
  std::vector<Series> series;
  std::string x_label = "message size";
  Scale x = Scale::kBytes;
  Scale y = Scale::kLogarithmic;
  bool legend_right = false;  // where lines are high at the left
};

/// Colours of charts, light or dark as the reader prefers, as CSS.
std::string chart_style();

/// A chart as an SVG element, without its style.
std::string svg_of(const Chart& chart);

/// The charts side by side under one headline, as a whole SVG document.
std::string svg_of(const std::string& headline, const std::vector<Chart>& charts);

/// Text in which nothing is markup.
std::string escaped(const std::string& text);

}  // namespace uroce::perf
