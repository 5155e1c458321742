#include "coordinator/cli/loss_plot.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr int kMargin = 8, kPlotRows = 14, kPlotColumnsMin = 20;

bool IsPlotted(const std::pair<double, double>& point) {
  return std::isfinite(point.first) && std::isfinite(point.second) && point.second > 0;
}

struct Extent {
  double first = std::numeric_limits<double>::infinity(), last = 0;
  double low = std::numeric_limits<double>::infinity(), high = 0;
};

Extent ExtentOf(const std::vector<PlottedCurve>& curves) {
  Extent extent;
  for (const PlottedCurve& curve : curves) {
    for (const auto& point : curve.points) {
      if (!IsPlotted(point)) continue;
      extent.first = std::min(extent.first, point.first);
      extent.last = std::max(extent.last, point.first);
      extent.low = std::min(extent.low, point.second);
      extent.high = std::max(extent.high, point.second);
    }
  }
  return extent;
}

void Draw(const PlottedCurve& curve, const Extent& extent, std::vector<std::string>& rows) {
  const int columns = static_cast<int>(rows[0].size());
  std::map<int, std::pair<double, int>> sums;  // By column.
  for (const auto& point : curve.points) {
    if (!IsPlotted(point)) continue;
    auto& [sum, count] = sums[std::lround((columns - 1) * point.first / extent.last)];
    sum += point.second;
    ++count;
  }
  for (const auto& [column, sum] : sums) {
    const double loss = sum.first / sum.second;
    const double height = std::log(extent.high / loss) / std::log(extent.high / extent.low);
    char& there = rows[std::lround((kPlotRows - 1) * height)][column];
    there = there == ' ' || there == curve.letter ? curve.letter : '*';
  }
}

}  // namespace

std::string LossPlot(const std::vector<PlottedCurve>& curves, int columns,
                     const std::string& axis) {
  Extent extent = ExtentOf(curves);
  if (!(extent.first < extent.last)) return "";
  extent.high = std::max(extent.high, extent.low * 1.01);
  const int inside = std::max(columns, kMargin + 1 + kPlotColumnsMin) - kMargin - 1;
  std::vector<std::string> rows(kPlotRows, std::string(inside, ' '));
  for (const PlottedCurve& curve : curves) Draw(curve, extent, rows);
  std::string text;
  for (int i = 0; i < kPlotRows; ++i) {
    const double loss =
        extent.high * std::pow(extent.low / extent.high, i / static_cast<double>(kPlotRows - 1));
    const bool labelled = i % 3 == 0 || i == kPlotRows - 1;
    absl::StrAppend(&text,
                    absl::StripTrailingAsciiWhitespace(absl::StrFormat(
                        "%*s|%s", kMargin, labelled ? absl::StrFormat("%.4g", loss) : "", rows[i])),
                    "\n");
  }
  const std::string end = absl::StrCat(CountText(extent.last), " ", axis);
  absl::StrAppend(&text, std::string(kMargin, ' '), "+", std::string(inside, '-'), "\n",
                  std::string(kMargin + 1, ' '), "0",
                  std::string(std::max<int>(1, inside - 1 - ColumnsOf(end)), ' '), end, "\n");
  return text;
}

}  // namespace longhaul::cli
