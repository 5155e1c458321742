#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/counted.h"
#include "common/wire/message_json.h"
#include "common/wire/proto_values.h"
#include "coordinator/cli/forecast_view.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

std::string Steps(const v1::Job& job) {
  return absl::StrCat(job.inner_step(), "/", job.spec().train().steps());
}

std::string LossOrDash(const v1::EvalLoss& loss) {
  return loss.has_last() ? absl::StrFormat("%.4f", loss.last()) : "-";
}

std::string Took(const v1::Job& job, absl::Time now) {
  if (!job.has_started_at()) return "-";
  return DurationText((job.has_ended_at() ? TimeFromProto(job.ended_at()) : now) -
                      TimeFromProto(job.started_at()));
}

std::string SubmittedText(const v1::Job& job, const char* form) {
  if (!job.has_created_at()) return "-";
  return absl::FormatTime(form, TimeFromProto(job.created_at()), absl::UTCTimeZone());
}

// Narrow, as `ls` has it: the time of today, else the day of this year, else the month.
std::string SubmittedDay(const v1::Job& job, absl::Time now) {
  const auto same = [&](const char* form) {
    return SubmittedText(job, form) == absl::FormatTime(form, now, absl::UTCTimeZone());
  };
  return SubmittedText(job, same("%Y-%m-%d") ? "%H:%MZ" : same("%Y") ? "%b %d" : "%b %Y");
}

std::string KeptFor(absl::Time until, absl::Time now) {
  if (until <= now) return "being deleted, unless another job starts from its checkpoint";
  return absl::StrCat(DurationText(until - now), ", until it is deleted");
}

std::string HealthName(v1::JobHealth::Level level) {
  return absl::AsciiStrToLower(v1::JobHealth::Level_Name(level));
}

std::string PauseText(const v1::Job& job, absl::Time now) {
  const v1::JobPause& pause = job.pause();
  return absl::StrCat(DurationText(now - TimeFromProto(pause.at())), " ago",
                      pause.by().empty() ? "" : absl::StrCat(", by ", pause.by()),
                      pause.reason().empty() ? "" : absl::StrCat(": ", pause.reason()));
}

std::string EvalText(const v1::EvalLoss& loss) {
  if (!loss.has_last()) return "none yet";
  return absl::StrFormat("%.4f at step %d (first %.4f, best %.4f)", loss.last(), loss.last_step(),
                         loss.first(), loss.best());
}

using Metrics = google::protobuf::RepeatedPtrField<v1::Metric>;

std::string MetricText(const Metrics& metrics, absl::string_view name) {
  for (const v1::Metric& metric : metrics) {
    if (metric.name() == name) return absl::StrFormat("%.4f", metric.value());
  }
  return "-";
}

// "eval accuracy": without what follows from the loss, or counts.
bool IsShown(const v1::Metric& metric) {
  return metric.name() != "loss" && metric.name() != "perplexity" &&
         metric.name() != "test_examples";
}

std::string WithSpaces(std::string name) {
  std::replace(name.begin(), name.end(), '_', ' ');
  return name;
}

void AddMetrics(const v1::EvalLoss& loss, std::vector<std::pair<std::string, std::string>>* pairs) {
  for (const v1::Metric& metric : loss.metrics()) {
    if (!IsShown(metric)) continue;
    std::string text = absl::StrFormat("%.4f", metric.value());
    if (loss.pools() > 1) {
      absl::StrAppend(&text, " (worst pool ", MetricText(loss.worst_pool(), metric.name()),
                      ", mean of ", loss.pools(), " pools ",
                      MetricText(loss.mean_of_pools(), metric.name()), ")");
    }
    pairs->push_back({WithSpaces(metric.name()), std::move(text)});
  }
}

// Where every pool evaluates the outer parameters on data of its own: those, and the pool's own
// parameters.
std::string EvaluationTable(const v1::Job& job, TableWidth width) {
  std::vector<std::string> names;
  for (const v1::PoolProgress& p : job.pools()) {
    for (const v1::Metric& metric : p.outer_evaluation()) {
      const bool counts = metric.name() == "test_examples";
      if (!counts && std::find(names.begin(), names.end(), metric.name()) == names.end())
        names.push_back(metric.name());
    }
  }
  if (names.empty()) return "";
  std::vector<Column> columns = {{"POOL", CellFit::kName}, {"PARAMETERS"}, {"STEP"}};
  for (const std::string& name : names)
    columns.push_back({absl::AsciiStrToUpper(WithSpaces(name))});
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const v1::PoolProgress& p, const char* which, int64_t step,
                       const Metrics& metrics) {
    if (metrics.empty()) return;
    rows.push_back({p.pool(), which, absl::StrCat(step)});
    for (const std::string& name : names) rows.back().push_back(MetricText(metrics, name));
  };
  for (const v1::PoolProgress& p : job.pools()) {
    add(p, "outer", p.outer_evaluation_step(), p.outer_evaluation());
    add(p, "its own", p.evaluation_step(), p.evaluation());
  }
  return absl::StrCat("\n", FittedTable(columns, rows, width));
}

std::string WireText(const v1::Job& job) {
  const int64_t total = job.wire_bytes().up_total() + job.wire_bytes().down_total();
  std::string text = absl::StrCat(BytesText(job.wire_bytes().up_total()), " up, ",
                                  BytesText(job.wire_bytes().down_total()), " down");
  if (total > 0 && job.data_parallel_bytes() > 0) {
    absl::StrAppendFormat(&text, " (per-step data parallelism: %.0f times as much)",
                          static_cast<double>(job.data_parallel_bytes()) / total);
  }
  return text;
}

std::string FragmentTable(const v1::Job& job, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::FragmentStatus& f : job.fragments()) {
    rows.push_back({f.name(), absl::StrCat(f.elements()), absl::StrCat(f.rounds_committed()),
                    BytesText(f.payload_bytes_up()), BytesText(f.payload_bytes_down())});
  }
  return FittedTable({{"FRAGMENT", CellFit::kName}, {"ELEMENTS"}, {"ROUNDS"}, {"UP"}, {"DOWN"}},
                     rows, width);
}

std::string PoolTable(const v1::Job& job, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::PoolProgress& p : job.pools()) {
    // A pool that left because the job is complete is not a loss.
    rows.push_back({p.pool(),
                    HasEnded(job) ? "ended"
                    : p.live()    ? "yes"
                                  : "no",
                    absl::StrCat(p.ranks()), absl::StrCat(p.inner_step()),
                    absl::StrFormat("%.4f", p.train_loss()), CountText(p.tokens_per_second()),
                    DurationText(absl::Seconds(p.compute_seconds())),
                    DurationText(absl::Seconds(p.exposed_wait_seconds()))});
  }
  return FittedTable({{"POOL", CellFit::kName},
                      {"LIVE"},
                      {"RANKS"},
                      {"STEP"},
                      {"LOSS"},
                      {absl::StrCat(absl::AsciiStrToUpper(UnitName(job)), "/S")},
                      {"COMPUTE"},
                      {"WAIT"}},
                     rows, width);
}

// A line for each pool that keeps its inner state.
std::string InnerStateText(const v1::Job& job) {
  std::string text;
  for (const v1::PoolProgress& p : job.pools()) {
    if (p.inner_state_saved_step() == 0 && p.inner_state_losses() == 0) continue;
    absl::StrAppend(&text, Printable(p.pool()), ": inner state saved at step ",
                    p.inner_state_saved_step(), "; started with ",
                    p.inner_state_taken_up_step() == 0
                        ? "none"
                        : absl::StrCat("that of step ", p.inner_state_taken_up_step()),
                    p.inner_state_losses() == 0
                        ? ""
                        : absl::StrCat("; ", Counted(p.inner_state_losses(), "time"),
                                       " none was usable, so its moments started at zero"),
                    "\n");
  }
  return text;
}

// A line for each pool that was late (sync.mode QUORUM).
std::string LateText(const v1::Job& job) {
  std::string text;
  for (const v1::PoolProgress& p : job.pools()) {
    if (p.late_rounds() == 0) continue;
    absl::StrAppend(&text, Printable(p.pool()), ": ", Counted(p.late_rounds(), "round"),
                    " continued without it");
    if (p.late_rounds_in_a_row() >= 2 * job.fragments_size()) {
      absl::StrAppend(&text, ", the last ", p.late_rounds_in_a_row(),
                      " in a row: it contributes nothing");
    }
    text += '\n';
  }
  return text;
}

// A line for each pool whose contributions were left out (guard.outer).
std::string LeftOutText(const v1::Job& job) {
  std::string text;
  for (const v1::PoolProgress& p : job.pools()) {
    if (p.left_out_rounds() == 0 && p.left_out_fragments() == 0) continue;
    absl::StrAppend(&text, Printable(p.pool()), ": guard.outer left out ",
                    Counted(p.left_out_rounds(), "contribution"), ", the newest in ",
                    p.left_out_fragments(), " of ", Counted(job.fragments_size(), "fragment"),
                    "\n");
  }
  return text;
}

// Without the field twice: many messages begin with it.
std::string FieldAndMessage(const v1::JobError& error) {
  const bool named = error.field().empty() || absl::StartsWith(error.message(), error.field());
  return Printable(named ? error.message() : absl::StrCat(error.field(), ": ", error.message()));
}

Json EvalLossJson(const v1::EvalLoss& loss) { return MessageToJson(loss, JsonFields::kAll); }

Json WireBytesJson(const v1::WireBytes& bytes) {
  return {{"up", {{"payload", bytes.up_payload()}, {"total", bytes.up_total()}}},
          {"down", {{"payload", bytes.down_payload()}, {"total", bytes.down_total()}}}};
}

}  // namespace

std::string UnitName(const v1::Job& job) {
  return job.unit_name().empty() ? "tokens" : job.unit_name();
}

bool HasEnded(const v1::Job& job) {
  return job.state() == v1::COMPLETED || job.state() == v1::FAILED || job.state() == v1::CANCELLED;
}

bool Rests(const v1::Job& job) { return HasEnded(job) || job.state() == v1::QUARANTINED; }

std::string SetAsideText(const google::protobuf::RepeatedPtrField<v1::SetAside>& set_aside,
                         int left_out) {
  std::string text;
  for (const v1::SetAside& pool : set_aside) {
    absl::StrAppend(&text, Printable(pool.pool()), " is set aside for ", Printable(pool.job()),
                    ": ", Printable(pool.error().code()), ": ", FieldAndMessage(pool.error()), " (",
                    pool.failures() > 1 ? absl::StrCat(pool.failures(), " times in a row; ") : "",
                    "again in ", DurationText(DurationFromProto(pool.retry_in())), ")\n");
    if (!pool.error().hint().empty())
      absl::StrAppend(&text, "  hint: ", Printable(pool.error().hint()), "\n");
  }
  if (left_out > 0) absl::StrAppend(&text, "and ", left_out, " more that are set aside\n");
  return text;
}

std::string StateName(v1::JobState state) { return EnumName(state, "STATE"); }

std::string FindingText(const v1::HealthFinding& finding) {
  return absl::StrCat(
      finding.code(), ": ", finding.pool(), finding.pool().empty() ? "" : ": ", finding.message(),
      ", since ",
      absl::FormatTime("%Y-%m-%d %H:%M:%SZ", TimeFromProto(finding.since()), absl::UTCTimeZone()));
}

std::string StateAndHealth(const v1::Job& job) {
  const v1::JobHealth::Level level = job.health().level();
  return absl::StrCat(StateName(job.state()), level == v1::JobHealth::FAILING   ? ", failing"
                                              : level == v1::JobHealth::WARNING ? ", warning"
                                                                                : "");
}

Json JobJson(const v1::Job& job) {
  Json json = {{"name", job.spec().name()}, {"steps", job.spec().train().steps()}};
  json.update(MessageToJson(job, JsonFields::kAll));
  json["eval_loss"] = EvalLossJson(job.eval_loss());
  json["wire_bytes"] = WireBytesJson(job.wire_bytes());
  json["spec"] = MessageToJson(job.spec(), JsonFields::kSet);
  return json;
}

Json JobsJson(const v1::ListJobsResponse& jobs) {
  Json json = Json::array();
  for (const v1::Job& job : jobs.jobs()) json.push_back(JobJson(job));
  return json;
}

std::string JobTable(const v1::Job& job, absl::Time now, TableWidth width) {
  std::vector<std::pair<std::string, std::string>> pairs = {
      {"name", job.spec().name()},
      {"id", job.id()},
      {"state", StateName(job.state())},
      {"step", Steps(job)},
      {"submitted", SubmittedText(job, "%Y-%m-%d %H:%M:%SZ")},
      {"duration", Took(job, now)},
      {"parameters", CountText(job.parameters())},
      {UnitName(job), CountText(job.tokens())},
      {"eval loss", EvalText(job.eval_loss())}};
  AddMetrics(job.eval_loss(), &pairs);
  pairs.push_back({"exchanged", WireText(job)});
  pairs.push_back({"utilization", absl::StrFormat("%.1f %%", 100 * job.utilization())});
  if (!job.owner().empty()) pairs.push_back({"owner", job.owner()});
  if (job.has_kept_until())
    pairs.push_back({"kept for", KeptFor(TimeFromProto(job.kept_until()), now)});
  if (!job.waiting_for().empty()) pairs.push_back({"waiting for", job.waiting_for()});
  if (job.has_pause()) pairs.push_back({"paused", PauseText(job, now)});
  if (job.has_error()) {
    const v1::JobError& error = job.error();
    pairs.push_back({"error", absl::StrCat(error.code(), ": ", error.message())});
    if (!error.field().empty()) pairs.push_back({"field", error.field()});
    if (!error.pool().empty()) pairs.push_back({"reported by", error.pool()});
    if (!error.hint().empty()) pairs.push_back({"hint", error.hint()});
  }
  if (job.has_health()) pairs.push_back({"health", HealthName(job.health().level())});
  for (const v1::HealthFinding& finding : job.health().findings()) {
    pairs.push_back({HealthName(finding.level()), FindingText(finding)});
    if (!finding.hint().empty()) pairs.push_back({"hint", finding.hint()});
  }
  for (const std::string& warning : job.warnings()) pairs.push_back({"warning", warning});
  std::string text = PairsText(pairs);
  if (job.fragments_size() > 0) absl::StrAppend(&text, "\n", FragmentTable(job, width));
  if (job.has_forecast()) absl::StrAppend(&text, "\n", ForecastCheckText(job.forecast(), width));
  if (job.pools_size() > 0)
    absl::StrAppend(&text, "\n", PoolTable(job, width), LateText(job), LeftOutText(job),
                    InnerStateText(job));
  absl::StrAppend(&text, EvaluationTable(job, width));
  if (job.pools_left_out() > 0)
    absl::StrAppend(&text, "and ", job.pools_left_out(), " more pools\n");
  if (job.set_aside_size() > 0)
    absl::StrAppend(&text, "\n", SetAsideText(job.set_aside(), job.set_aside_left_out()));
  return text;
}

std::string JobsTable(const v1::ListJobsResponse& jobs, absl::Time now, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::Job& job : jobs.jobs()) {
    rows.push_back({job.spec().name(), StateAndHealth(job), Steps(job), LossOrDash(job.eval_loss()),
                    absl::StrCat(job.pools_size() + job.pools_left_out()), Took(job, now),
                    SubmittedDay(job, now), job.id()});
  }
  return FittedTable({{"NAME", CellFit::kName},
                      {"STATE"},
                      {"STEP"},
                      {"EVAL LOSS"},
                      {"POOLS"},
                      {"RUNNING FOR"},
                      {"DATE"},
                      {"ID", CellFit::kId}},
                     rows, width);
}

}  // namespace longhaul::cli
