#include "coordinator/cli/plan_command.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/command_line/value_checks.h"
#include "common/config/job_spec.h"
#include "common/plan/job/job_forecast.h"
#include "common/rpc/status_details.h"
#include "common/wire/message_json.h"
#include "coordinator/cli/forecast_view.h"
#include "coordinator/cli/spec_file.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

// Of the chart.
constexpr double kMbps[] = {10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000};
constexpr int kBarColumns = 20;

// A job whose links all have another bandwidth, and two other settings of it.
struct Variant {
  std::string name;
  ResolvedJob job;
};

std::vector<Variant> VariantsOf(const ResolvedJob& job) {
  std::vector<Variant> variants = {{"as planned", job}};
  const auto add = [&](const std::string& name, v1::JobSpec spec) {
    auto resolved = ResolveJobSpec(spec);
    if (resolved.ok()) variants.push_back({name, *std::move(resolved)});
  };
  v1::JobSpec longer = job.spec;
  longer.mutable_sync()->set_h(std::min(4 * longer.sync().h(), longer.train().steps()));
  add(absl::StrCat("sync.h ", longer.sync().h()), longer);
  v1::JobSpec waiting = job.spec;
  waiting.mutable_sync()->set_tau(0);
  if (job.spec.sync().tau() > 0) add("sync.tau 0", waiting);
  return variants;
}

struct Chart {
  std::vector<Variant> variants;
  // By bandwidth, by variant.
  std::vector<std::vector<double>> utilization;
};

Chart ChartOf(const ResolvedJob& job, v1::Sites sites) {
  Chart chart{.variants = VariantsOf(job)};
  for (const double mbps : kMbps) {
    plan::SetLinks(mbps, sites);
    std::vector<double>& row = chart.utilization.emplace_back();
    for (const Variant& variant : chart.variants)
      row.push_back(plan::PaceOf(variant.job, sites).utilization);
  }
  return chart;
}

Json ChartJson(const Chart& chart) {
  Json json = Json::array();
  for (size_t i = 0; i < std::size(kMbps); ++i) {
    Json row = {{"mbps", kMbps[i]}};
    for (size_t v = 0; v < chart.variants.size(); ++v)
      row["utilization"][chart.variants[v].name] = chart.utilization[i][v];
    json.push_back(std::move(row));
  }
  return json;
}

std::string ChartText(const Chart& chart) {
  std::vector<Column> columns = {{"MBIT/S"}};
  for (const Variant& variant : chart.variants) columns.push_back({variant.name});
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::size(kMbps); ++i) {
    std::vector<std::string> row = {absl::StrFormat("%g", kMbps[i])};
    for (const double utilization : chart.utilization[i]) {
      const int filled = static_cast<int>(std::lround(kBarColumns * utilization));
      row.push_back(absl::StrCat(std::string(filled, '#'), std::string(kBarColumns - filled, '.'),
                                 absl::StrFormat(" %3.0f %%", 100 * utilization)));
    }
    rows.push_back(std::move(row));
  }
  return absl::StrCat(
      "Share of the time that the pool that sets the pace computes, if all links had this "
      "bandwidth:\n",
      FittedTable(columns, rows));
}

// "downlink 12 s, others 3 s" of a cycle; the longest first.
std::string Waits(const v1::CycleSeconds& cycle) {
  std::vector<std::pair<double, std::string>> parts = {
      {cycle.uplink(), "uplink"},      {cycle.downlink(), "downlink"},
      {cycle.others(), "other pools"}, {cycle.coordinator(), "coordinator"},
      {cycle.copying(), "copying"},    {cycle.evaluation(), "evaluations"}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const auto& a, const auto& b) { return a.first > b.first; });
  const double all = cycle.compute() + cycle.uplink() + cycle.downlink() + cycle.others() +
                     cycle.coordinator() + cycle.copying() + cycle.evaluation();
  std::string text;
  for (const auto& [seconds, name] : parts) {
    if (seconds < 0.001 * all) continue;
    absl::StrAppend(&text, text.empty() ? "" : ", ", name, " ", SecondsText(seconds));
  }
  return text.empty() ? "nothing" : text;
}

// "12.3 GiB of 80.0 GiB", with "NO" before what does not fit.
std::string MemoryText(const v1::RankMemory& memory, bool known, bool fits) {
  if (!known) return WholeBytesText(memory.total());
  return absl::StrCat(fits ? "" : "NO: ", WholeBytesText(memory.total()), " of ",
                      WholeBytesText(memory.available()));
}

std::string PoolsText(const v1::JobForecast& forecast, TableWidth width) {
  std::vector<std::vector<std::string>> rows;
  for (const v1::PoolForecast& pool : forecast.pools()) {
    rows.push_back(
        {pool.copies() > 1 ? absl::StrCat(pool.name(), " x ", pool.copies()) : pool.name(),
         absl::StrCat(pool.ranks()), SecondsText(pool.step_seconds()),
         CountText(pool.tokens_per_second()), PercentText(pool.utilization()),
         WholeBytesText(pool.bytes_up_per_hour()), WholeBytesText(pool.bytes_down_per_hour()),
         MemoryText(pool.device(), pool.has_device_fits(), pool.device_fits()),
         MemoryText(pool.host(), pool.has_host_fits(), pool.host_fits()), Waits(pool.cycle())});
  }
  return FittedTable({{"POOL", CellFit::kName},
                      {"RANKS"},
                      {"STEP"},
                      {"TOKENS/S"},
                      {"COMPUTES"},
                      {"UP PER HOUR"},
                      {"DOWN PER HOUR"},
                      {"MEMORY OF A RANK"},
                      {"HOST OF A NODE"},
                      {"WAITS IN A CYCLE", CellFit::kText}},
                     rows, width);
}

std::string ChangesText(const v1::JobForecast& forecast, double wanted, TableWidth width) {
  if (forecast.changes().empty()) return "";
  std::vector<std::vector<std::string>> reaching, others;
  for (const v1::PlannedChange& change : forecast.changes()) {
    (change.reaches() ? reaching : others)
        .push_back({change.field(), change.from(), change.to(), PercentText(change.utilization()),
                    DurationText(absl::Seconds(change.seconds())), change.note()});
  }
  const std::vector<Column> columns = {
      {"CHANGE", CellFit::kName}, {"FROM"}, {"TO"}, {"COMPUTES"}, {"JOB"},
      {"NOTE", CellFit::kText}};
  std::string text;
  if (!reaching.empty()) {
    absl::StrAppend(&text, "\nOne of these alone makes the pool that sets the pace compute ",
                    PercentText(wanted), " of the time:\n", FittedTable(columns, reaching, width));
  }
  if (!others.empty())
    absl::StrAppend(&text, "\nThese alone do not:\n", FittedTable(columns, others, width));
  return text;
}

std::string ForecastText(const std::string& name, const v1::JobForecast& forecast, double wanted,
                         const Chart& chart, TableWidth width) {
  std::string text = absl::StrFormat(
      "%s: %s parameters, %s steps, %s tokens\n"
      "Pools compute %s of the time, the one that sets the pace %s.\n"
      "The job takes %s, a cycle of all fragments %s.\n",
      name, CountText(static_cast<double>(forecast.parameters())),
      CountText(static_cast<double>(forecast.steps())), CountText(forecast.tokens()),
      PercentText(forecast.utilization()), PercentText(forecast.pace_utilization()),
      DurationText(absl::Seconds(forecast.seconds())), SecondsText(forecast.cycle_seconds()));
  if (forecast.evaluation_seconds() > 0) {
    absl::StrAppend(&text, "Evaluations take ", SecondsText(forecast.evaluation_seconds()),
                    " of a pool's time.\n");
  }
  const auto fits = [](bool known, bool does) {
    return !known ? "" : does ? " (fits)" : " (DOES NOT FIT)";
  };
  absl::StrAppend(&text, "The coordinator takes ",
                  WholeBytesText(forecast.coordinator_memory_bytes()), " of memory",
                  fits(forecast.has_coordinator_memory_fits(), forecast.coordinator_memory_fits()),
                  " and ", WholeBytesText(forecast.coordinator_disk_bytes()), " of disk",
                  fits(forecast.has_coordinator_disk_fits(), forecast.coordinator_disk_fits()),
                  ".\n");
  if (forecast.has_cost())
    absl::StrAppend(&text,
                    absl::StrFormat("It costs %.2f at the prices given.\n", forecast.cost()));
  absl::StrAppend(&text, "\n", PoolsText(forecast, width), ChangesText(forecast, wanted, width),
                  "\n", ChartText(chart), "\nAssumed:\n");
  for (const std::string& assumption : forecast.assumptions())
    absl::StrAppend(
        &text, WrapText(absl::StrCat("- ", assumption), width.columns > 0 ? width.columns : 100));
  return text;
}

std::string WhoseSites(const std::string& path) {
  return absl::StrCat("the sites of ", path, " are refused");
}

// `refused`: for people, if the sites are.
Outcome Forecast(const Arguments& arguments, const ResolvedJob& job, v1::Sites sites,
                 const std::string& refused, const Environment& environment) {
  SetGivenLinks(arguments, sites);
  std::vector<SpecViolation> violations;
  const absl::StatusOr<v1::Sites> complete = plan::CompleteSites(job, sites, &violations);
  if (!complete.ok()) return ErrorOfSites(complete.status(), violations, refused);
  v1::JobForecast forecast = plan::ForecastJob(job, *complete);
  for (v1::PlannedChange& change :
       plan::ChangesFor(job, *complete, forecast, arguments.utilization)) {
    *forecast.add_changes() = std::move(change);
  }
  const Chart chart = ChartOf(job, *complete);
  Json json = MessageToJson(forecast, JsonFields::kAll);
  json["at_other_bandwidths"] = ChartJson(chart);
  return {std::move(json), ForecastText(job.spec.name(), forecast, arguments.utilization, chart,
                                        {environment.table_columns()})};
}

}  // namespace

void AddPlan(CLI::App& app, Arguments& arguments) {
  CLI::App* command = app.add_subcommand(
      "plan", "Forecast a job before it is submitted: memory, time, links, and what to change");
  command->add_option("-f,--file", arguments.file, "Job spec as YAML or JSON; -: standard input")
      ->type_name("FILE")
      ->required();
  command
      ->add_option(
          "--sites", arguments.sites,
          "The pools, their machines and links, as YAML: deploy/examples/sites/two_regions.yaml "
          "(default: the pools of the coordinator, as fast as in their newest job)")
      ->type_name("FILE");
  command->add_option("--set", arguments.overrides, "Change one value of the spec, as for submit")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command
      ->add_option("--utilization", arguments.utilization,
                   absl::StrFormat(
                       "Show what would make the pool that sets the pace compute this share of the "
                       "time "
                       "(default: %g)",
                       arguments.utilization))
      ->type_name("SHARE")
      ->check(Number(0.01, 0.9999));
  command
      ->add_option("--link-mbps", arguments.link_mbps,
                   "Bandwidth of each pool's link, each way (default: as --sites says, or 1000)")
      ->type_name("MBPS")
      ->check(Number(1e-3, 1e7));
  command
      ->add_option("--rtt-ms", arguments.rtt_ms,
                   "Round trip of each pool to the coordinator (default: as --sites says, or 0)")
      ->type_name("MS")
      ->check(Number(0, 60000));
}

std::variant<ResolvedJob, CliError> ReadPlannedJob(const Arguments& arguments,
                                                   const Environment& environment) {
  auto read = ReadJobSpec(arguments, environment);
  if (auto* error = std::get_if<CliError>(&read)) return std::move(*error);
  v1::JobSpec spec = std::get<v1::JobSpec>(std::move(read));
  if (std::optional<CliError> error = ResolveFolders(spec)) return *std::move(error);
  std::vector<SpecViolation> violations;
  absl::StatusOr<ResolvedJob> job = ResolveJobSpec(spec, &violations);
  if (!job.ok()) return ErrorOfSpec(job.status(), violations);
  return *std::move(job);
}

std::variant<v1::Sites, CliError> ReadSites(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadTextFile(path);
  if (!text.ok()) return UsageError(std::string(text.status().message()));
  std::vector<SpecViolation> violations;
  absl::StatusOr<v1::Sites> sites = plan::ParseSites(*text, &violations);
  if (!sites.ok()) return ErrorOfSpec(sites.status(), violations, WhoseSites(path));
  return *std::move(sites);
}

CliError ErrorOfSites(const absl::Status& status, const std::vector<SpecViolation>& violations,
                      const std::string& refused) {
  const bool of_job = std::any_of(violations.begin(), violations.end(),
                                  [](const SpecViolation& v) { return v.field == "model"; });
  return of_job ? ErrorOfSpec(status, violations) : ErrorOfSpec(status, violations, refused);
}

void SetGivenLinks(const Arguments& arguments, v1::Sites& sites) {
  if (arguments.link_mbps > 0) plan::SetLinks(arguments.link_mbps, sites);
  if (arguments.rtt_ms < 0) return;
  for (v1::PoolSite& site : *sites.mutable_pools())
    site.mutable_link()->set_rtt_ms(arguments.rtt_ms);
}

Outcome PlanForSites(const Arguments& arguments, const Environment& environment) {
  auto sites = ReadSites(arguments.sites);
  if (auto* error = std::get_if<CliError>(&sites)) return std::move(*error);
  auto job = ReadPlannedJob(arguments, environment);
  if (auto* error = std::get_if<CliError>(&job)) return std::move(*error);
  return Forecast(arguments, std::get<ResolvedJob>(job), std::get<v1::Sites>(std::move(sites)),
                  WhoseSites(arguments.sites), environment);
}

Outcome Plan(const Arguments& arguments, Client& client, const Environment& environment) {
  auto job = ReadPlannedJob(arguments, environment);
  if (auto* error = std::get_if<CliError>(&job)) return std::move(*error);
  v1::PlanJobRequest request;
  *request.mutable_spec() = std::get<ResolvedJob>(job).spec;
  const auto planned = client.PlanJob(request);
  if (!planned.ok()) {
    CliError error = ErrorOfCall(planned.status(), client.address());
    if (!WasAnswered(planned.status()))
      error.hint =
          "without a coordinator describe the sites: --sites "
          "deploy/examples/sites/two_regions.yaml";
    return error;
  }
  return Forecast(arguments, std::get<ResolvedJob>(job), planned->sites(),
                  absl::StrCat("the pools of ", client.address(), " are refused"), environment);
}

}  // namespace longhaul::cli
