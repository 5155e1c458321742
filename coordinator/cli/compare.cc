#include "coordinator/cli/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/wire/message_json.h"
#include "common/wire/proto_values.h"
#include "coordinator/cli/loss_plot.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

constexpr char kEvalLoss[] = "eval/loss", kTrainLoss[] = "train/loss", kTokens[] = "train/tokens";
constexpr int kPlaces = 8;  // Token counts at which losses are compared.

using Line = std::vector<std::pair<double, double>>;

struct Compared {
  v1::Job job;
  std::vector<v1::Curve> curves;
  // Losses by tokens of all pools.
  Line held_out, training;
};

Line LineOf(const v1::Curve& curve) {
  Line line;
  for (const v1::CurvePoint& point : curve.points()) {
    if (std::isfinite(point.value()))
      line.push_back({static_cast<double>(point.step()), point.value()});
  }
  return line;
}

// The value at `x`, between two points; that of the nearest point outside of them.
double At(const Line& line, double x) {
  const auto after = std::lower_bound(line.begin(), line.end(), std::pair(x, -HUGE_VAL));
  if (after == line.end()) return line.back().second;
  if (after == line.begin()) return line.front().second;
  const auto& [x0, y0] = *std::prev(after);
  return y0 + (after->second - y0) * (x - x0) / (after->first - x0);
}

// Tokens of all pools at an inner step.
class TokenCount {
 public:
  explicit TokenCount(const Compared& of) {
    for (const v1::Curve& curve : of.curves) {
      if (curve.name() != kTokens) continue;
      Line line = LineOf(curve);
      if (line.empty()) continue;
      // Before its first report a pool had as many tokens per step.
      if (line.front().first > 0) line.insert(line.begin(), {0., 0.});
      pools_.push_back(std::move(line));
    }
    if (of.job.inner_step() > 0)
      per_step_ = static_cast<double>(of.job.tokens()) / static_cast<double>(of.job.inner_step());
  }
  double operator()(double step) const {
    double tokens = pools_.empty() ? per_step_ * step : 0;
    for (const Line& pool : pools_) tokens += At(pool, step);
    return tokens;
  }

 private:
  std::vector<Line> pools_;
  double per_step_ = 0;
};

// By tokens, with the means of what several pools report of one step.
Line ByTokens(const Line& by_step, const TokenCount& tokens) {
  std::map<double, std::pair<double, int>> sums;
  for (const auto& [step, loss] : by_step) {
    auto& [sum, count] = sums[tokens(step)];
    sum += loss;
    ++count;
  }
  Line line;
  for (const auto& [at, sum] : sums) line.push_back({at, sum.first / sum.second});
  return line;
}

void FillLines(Compared* of) {
  const TokenCount tokens(*of);
  Line held_out, training;
  for (const v1::Curve& curve : of->curves) {
    const Line line = LineOf(curve);
    if (curve.name() == kEvalLoss && curve.pool().empty()) held_out = line;
    if (curve.name() == kTrainLoss) training.insert(training.end(), line.begin(), line.end());
  }
  of->held_out = ByTokens(held_out, tokens);
  of->training = ByTokens(training, tokens);
}

// "sync.up.codec" -> "E3M0", of all that is set.
void Flatten(const Json& value, const std::string& path, std::map<std::string, std::string>* all) {
  if (value.is_object() && !value.empty()) {
    for (const auto& [name, inner] : value.items())
      Flatten(inner, path.empty() ? name : absl::StrCat(path, ".", name), all);
  } else {
    (*all)[path] = value.is_string() ? value.get<std::string>() : value.dump();
  }
}

// The fields that are not the same in all specs, each with a value of each job ("-": not set).
std::map<std::string, std::vector<std::string>> Differences(const std::vector<Compared>& jobs) {
  std::vector<std::map<std::string, std::string>> flat(jobs.size());
  std::set<std::string> paths;
  for (size_t i = 0; i < jobs.size(); ++i) {
    Flatten(MessageToJson(jobs[i].job.spec(), JsonFields::kSet), "", &flat[i]);
    for (const auto& [path, value] : flat[i]) paths.insert(path);
  }
  paths.erase("name");
  std::map<std::string, std::vector<std::string>> differing;
  for (const std::string& path : paths) {
    std::vector<std::string> values;
    for (const auto& spec : flat) values.push_back(spec.contains(path) ? spec.at(path) : "-");
    if (std::set(values.begin(), values.end()).size() > 1) differing[path] = std::move(values);
  }
  return differing;
}

char LetterOf(size_t i) { return static_cast<char>('A' + i); }

std::string LossText(double loss) { return absl::StrFormat("%.4f", loss); }

std::string Seconds(const v1::Job& job, absl::Time now) {
  if (!job.has_started_at()) return "-";
  const absl::Time end = job.has_ended_at() ? TimeFromProto(job.ended_at()) : now;
  return DurationText(end - TimeFromProto(job.started_at()));
}

// What all jobs count, in the plural.
std::string UnitOf(const std::vector<Compared>& jobs) {
  const std::string first = UnitName(jobs[0].job);
  const bool same = std::all_of(jobs.begin(), jobs.end(),
                                [&](const Compared& of) { return UnitName(of.job) == first; });
  return same ? first : "examples";
}
// "token".
std::string SingularOf(std::string unit) {
  if (unit.back() == 's') unit.pop_back();
  return unit;
}

std::string SummaryTable(const std::vector<Compared>& jobs, absl::Time now, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const v1::Job& job = jobs[i].job;
    const v1::EvalLoss& loss = job.eval_loss();
    const int64_t wire = job.wire_bytes().up_total() + job.wire_bytes().down_total();
    rows.push_back({std::string(1, LetterOf(i)), job.spec().name(), StateName(job.state()),
                    absl::StrCat(job.inner_step(), "/", job.spec().train().steps()),
                    CountText(job.tokens()), loss.has_last() ? LossText(loss.last()) : "-",
                    loss.has_best() ? LossText(loss.best()) : "-", BytesText(wire),
                    Seconds(job, now)});
  }
  return FittedTable({{""},
                      {"NAME", CellFit::kName},
                      {"STATE"},
                      {"STEP"},
                      {absl::AsciiStrToUpper(UnitOf(jobs))},
                      {"EVAL LOSS"},
                      {"BEST"},
                      {"EXCHANGED"},
                      {"RUNNING FOR"}},
                     rows, width);
}

std::string DifferenceTable(const std::map<std::string, std::vector<std::string>>& differing,
                            size_t jobs, TableWidth width) {
  if (differing.empty()) return "The specs differ in nothing but their names.\n";
  std::vector<Column> columns = {{"FIELD", CellFit::kPath}};
  for (size_t i = 0; i < jobs; ++i)
    columns.push_back({std::string(1, LetterOf(i)), CellFit::kPath});
  std::vector<std::vector<std::string>> rows;
  for (const auto& [path, values] : differing) {
    rows.push_back({path});
    rows.back().insert(rows.back().end(), values.begin(), values.end());
  }
  return FittedTable(columns, rows, width);
}

// The tokens at which all jobs have a loss: evenly from where the last one begins to where the
// first one ends.
std::vector<double> Places(const std::vector<const Line*>& lines) {
  double from = 0, to = HUGE_VAL;
  for (const Line* line : lines) {
    from = std::max(from, line->front().first);
    to = std::min(to, line->back().first);
  }
  std::vector<double> places;
  if (!(from <= to)) return places;
  const int count = from < to ? kPlaces : 1;
  for (int i = 1; i <= count; ++i) places.push_back(from + (to - from) * i / count);
  return places;
}

// With one job: a curve of each pool, and that of the outer parameters.
std::vector<PlottedCurve> CurvesOfOne(const Compared& of, std::string* legend) {
  const TokenCount tokens(of);
  std::vector<PlottedCurve> curves;
  for (const v1::Curve& curve : of.curves) {
    if (curve.name() != kTrainLoss || curves.size() >= 26) continue;
    curves.push_back({static_cast<char>('a' + curves.size()), ByTokens(LineOf(curve), tokens)});
    absl::StrAppend(legend, "  ", std::string(1, curves.back().letter), " ",
                    Printable(curve.pool()), ", training\n");
  }
  curves.push_back({'O', of.held_out});
  absl::StrAppend(legend, "  O outer parameters, held-out text\n");
  return curves;
}

std::string Paragraph(const std::string& heading, const std::string& text) {
  return text.empty() ? "" : absl::StrCat("\n", heading, "\n", text);
}

absl::StatusOr<Compared> Fetch(const std::string& name, Client& client) {
  Compared of;
  auto job = client.GetJob(name);
  if (!job.ok()) return job.status();
  of.job = *std::move(job);
  v1::GetCurvesRequest request;
  request.set_job(of.job.id());
  for (const char* curve : {kEvalLoss, kTrainLoss, kTokens}) request.add_names(curve);
  const auto curves = client.GetCurves(request);
  if (!curves.ok()) return curves.status();
  of.curves.assign(curves->curves().begin(), curves->curves().end());
  FillLines(&of);
  return of;
}

}  // namespace

Outcome Compare(const Arguments& arguments, Client& client, const Environment& environment) {
  if (arguments.jobs.size() > static_cast<size_t>(kComparedMax)) {
    return UsageError(absl::StrCat("JOB: found ", arguments.jobs.size(), " jobs, expected at most ",
                                   kComparedMax));
  }
  std::vector<Compared> jobs;
  for (const std::string& name : arguments.jobs) {
    absl::StatusOr<Compared> of = Fetch(name, client);
    if (absl::IsUnimplemented(of.status())) {
      CliError error = ErrorOfCall(of.status(), client.address());
      error.message = "this coordinator is of an earlier version, which gives no curves";
      error.hint = "its status page shows them; `longhaul get JOB` shows the newest losses";
      return error;
    }
    if (!of.ok()) return ErrorOfCall(of.status(), client.address());
    jobs.push_back(*std::move(of));
  }
  const bool held_out = std::all_of(jobs.begin(), jobs.end(),
                                    [](const Compared& of) { return !of.held_out.empty(); });
  std::vector<const Line*> lines;
  std::vector<PlottedCurve> curves;
  for (size_t i = 0; i < jobs.size(); ++i) {
    const Line& line = held_out ? jobs[i].held_out : jobs[i].training;
    if (!line.empty()) lines.push_back(&line);
    curves.push_back({LetterOf(i), line});
  }
  const bool comparable = jobs.size() > 1 && lines.size() == jobs.size();
  const std::vector<double> places = comparable ? Places(lines) : std::vector<double>();
  const auto differing = Differences(jobs);

  Json json = {{"jobs", Json::array()},
               {"differences", Json::object()},
               {"loss", held_out ? kEvalLoss : kTrainLoss},
               {"equal_tokens", Json::array()}};
  for (const Compared& of : jobs) {
    Json row = {{"name", of.job.spec().name()}, {"id", of.job.id()}};
    row["state"] = StateName(of.job.state());
    row["tokens"] = of.job.tokens();
    row["curve"] = Json::array();
    for (const auto& [tokens, loss] : held_out ? of.held_out : of.training)
      row["curve"].push_back({{"tokens", tokens}, {"loss", loss}});
    json["jobs"].push_back(std::move(row));
  }
  for (const auto& [path, values] : differing) json["differences"][path] = values;
  std::vector<std::vector<std::string>> rows;
  for (const double place : places) {
    Json losses = Json::array();
    rows.push_back({CountText(place)});
    for (const Line* line : lines) {
      losses.push_back(At(*line, place));
      rows.back().push_back(LossText(At(*line, place)));
    }
    json["equal_tokens"].push_back({{"tokens", place}, {"losses", losses}});
  }

  const TableWidth width{environment.table_columns()};
  const std::string unit = UnitOf(jobs);
  std::string text = SummaryTable(jobs, environment.clock.Now(), width);
  if (jobs.size() > 1)
    text += Paragraph("Fields of the specs that differ:",
                      DifferenceTable(differing, jobs.size(), width));
  if (!rows.empty()) {
    std::vector<Column> columns = {{absl::AsciiStrToUpper(unit)}};
    for (size_t i = 0; i < jobs.size(); ++i) columns.push_back({std::string(1, LetterOf(i))});
    text += Paragraph(
        absl::StrCat(held_out
                         ? absl::StrCat("Loss on held-out ", unit == "tokens" ? "text" : "data")
                         : "Loss while training",
                     ", nats per ", SingularOf(unit), ", at equal ", unit, " of all pools:"),
        FittedTable(columns, rows, width));
  }
  std::string legend;
  if (jobs.size() == 1) curves = CurvesOfOne(jobs[0], &legend);
  const std::string plot = LossPlot(curves, std::min(environment.columns(), 120), unit);
  text += Paragraph(absl::StrCat("Loss, nats per ", SingularOf(unit), ":"),
                    plot.empty() ? "" : plot + legend);
  if (plot.empty()) absl::StrAppend(&text, "\nToo few losses were reported yet for a plot.\n");
  return {std::move(json), std::move(text)};
}

}  // namespace longhaul::cli
