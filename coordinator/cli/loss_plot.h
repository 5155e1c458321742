// Curves as lines of text, for a terminal.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace longhaul::cli {

struct PlottedCurve {
  // What its points are drawn with.
  char letter = 'A';
  // (place on the horizontal axis, loss); losses above 0, any other is left out.
  std::vector<std::pair<double, double>> points;
};

// Lines of at most `columns` columns; none without two points at different places. Losses rise by
// equal ratios. Of the points in one column the mean is drawn; what several curves have in common
// is a "*". `axis` is the unit of the horizontal axis.
std::string LossPlot(const std::vector<PlottedCurve>& curves, int columns, const std::string& axis);

}  // namespace longhaul::cli
