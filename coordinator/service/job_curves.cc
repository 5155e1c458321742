#include "coordinator/service/job_curves.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "coordinator/service/message_size.h"
#include "nlohmann/json.hpp"

namespace longhaul::coordinator {
namespace {

using Json = nlohmann::json;

// Of one file. A larger one is read in windows of this size, at even distances.
constexpr int64_t kFileBytesMax = 8 << 20;
constexpr int64_t kWindowBytes = 32 << 10;
// Of all curves of an answer, so that it fits in a message; a point takes up to 29 bytes.
constexpr size_t kPointsOfAllMax = 60'000;
constexpr size_t kCurvesMax = 2'000;
constexpr size_t kPointsOfEachMin = 16;
constexpr size_t kRunsMax = 512;

using Points = std::vector<v1::CurvePoint>;
// By pool and name.
using Curves = std::map<std::pair<std::string, std::string>, Points>;

class Run {
 public:
  Run(std::string pool, const std::set<std::string>& names, Curves* curves)
      : pool_(std::move(pool)), names_(names), curves_(curves) {}

  void Take(absl::string_view line) {
    // The disk may have torn a line, or changed it.
    const Json row = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!row.is_object() || !row.contains("step") || !row["step"].is_number_integer()) return;
    const int64_t step = row["step"].get<int64_t>();
    const double time =
        row.contains("time") && row["time"].is_number() ? row["time"].get<double>() : 0;
    for (const auto& [name, value] : row.items()) {
      if (name == "step" || name == "time" || !(value.is_number() || value.is_null())) continue;
      if (!names_.empty() && !names_.contains(name)) continue;
      Points& points = (*curves_)[{pool_, name}];
      // A training that began again repeats steps: what came later is what holds.
      while (!points.empty() && points.back().step() >= step) points.pop_back();
      v1::CurvePoint& point = points.emplace_back();
      point.set_step(step);
      point.set_time(time);
      point.set_value(value.is_null() ? std::numeric_limits<double>::quiet_NaN()
                                      : value.get<double>());
    }
  }

 private:
  const std::string pool_;
  const std::set<std::string>& names_;
  Curves* const curves_;
};

// The whole lines of a window. `begins_line`: its first byte begins a line.
void TakeLines(absl::string_view text, bool begins_line, Run& run) {
  if (!begins_line) {
    const size_t first = text.find('\n');
    if (first == absl::string_view::npos) return;
    text.remove_prefix(first + 1);
  }
  for (size_t end; (end = text.find('\n')) != absl::string_view::npos; text.remove_prefix(end + 1))
    run.Take(text.substr(0, end));
}

absl::Status ReadRun(FileSystem& fs, const std::string& path, Run& run) {
  const absl::StatusOr<std::unique_ptr<File>> file = fs.Open(path);
  if (absl::IsNotFound(file.status())) return absl::OkStatus();
  LH_RETURN_IF_ERROR(file.status());
  LH_ASSIGN_OR_RETURN(const int64_t size, (*file)->Size());
  const bool whole = size <= kFileBytesMax;
  const int64_t windows = whole ? 1 : kFileBytesMax / kWindowBytes;
  std::string buffer(whole ? size : kWindowBytes, '\0');
  for (int64_t i = 0; i < windows; ++i) {
    const int64_t at = whole ? 0 : (size - kWindowBytes) * i / (windows - 1);
    LH_ASSIGN_OR_RETURN(const int64_t read, (*file)->ReadAt(at, absl::MakeSpan(buffer)));
    TakeLines(absl::string_view(buffer).substr(0, read), at == 0, run);
  }
  return absl::OkStatus();
}

// `most` of the points, evenly, with the first and the last.
void AddThinned(const Points& points, size_t most, v1::Curve* curve) {
  const size_t count = std::min(points.size(), most);
  for (size_t i = 0; i < count; ++i) {
    const size_t at = count < points.size() ? i * (points.size() - 1) / (count - 1) : i;
    *curve->add_points() = points[at];
  }
}

}  // namespace

absl::StatusOr<v1::GetCurvesResponse> ReadCurves(FileSystem& fs, const std::string& track,
                                                 const v1::GetCurvesRequest& request) {
  const std::set<std::string> names(request.names().begin(), request.names().end());
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> runs, ListIfThere(fs, track));
  Curves curves;
  size_t read = 0;
  for (const std::string& name : runs) {
    absl::string_view pool = name;
    if (name != "outer" && !absl::ConsumePrefix(&pool, "pool-")) continue;
    if (++read > kRunsMax) break;
    Run run(name == "outer" ? "" : std::string(pool), names, &curves);
    LH_RETURN_IF_ERROR(ReadRun(fs, JoinPath(JoinPath(track, name), "scalars.jsonl"), run));
  }
  v1::GetCurvesResponse response;
  const size_t shown = std::min(curves.size(), kCurvesMax);
  const size_t each = std::clamp<size_t>(kPointsOfAllMax / std::max<size_t>(shown, 1),
                                         kPointsOfEachMin, kCurvePointsMax);
  for (const auto& [of, points] : curves) {
    if (response.curves_size() >= static_cast<int>(shown)) break;
    v1::Curve* const curve = response.add_curves();
    curve->set_pool(of.first);
    curve->set_name(of.second);
    AddThinned(points, each, curve);
  }
  const int cut = KeepWithin(kPageBytesMax, response.mutable_curves());
  response.set_left_out(static_cast<int>(curves.size() - shown) + cut);
  return response;
}

}  // namespace longhaul::coordinator
