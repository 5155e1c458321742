#include "coordinator/cli/simulate_job.h"

#include <sys/resource.h>

#include <algorithm>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/command_line/value_checks.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/plan/job/job_forecast.h"
#include "coordinator/cli/csv_rows.h"
#include "coordinator/cli/forecast_view.h"
#include "coordinator/cli/plan_command.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"
#include "coordinator/simulation/job_simulation.h"

namespace longhaul::cli {
namespace {

constexpr int kPoolsMax = 10000;
constexpr int64_t kRoundsMax = 1000000;
constexpr int64_t kFaultsBytesMax = 1 << 20;
constexpr double kFaultSecondsMax = 1e8;

absl::StatusOr<std::vector<coordinator::SimulatedFault>> ReadFaults(const std::string& path) {
  std::vector<coordinator::SimulatedFault> faults;
  if (path.empty()) return faults;
  LH_ASSIGN_OR_RETURN(const std::string text,
                      ReadFile(*MakePosixFileSystem(), path, kFaultsBytesMax));
  LH_ASSIGN_OR_RETURN(const std::vector<CsvRow> rows,
                      ParseCsv(path, text, "fault",
                               {{"pool", 0, kPoolsMax},
                                {"at_seconds", 0, kFaultSecondsMax},
                                {"per_hour", 0, 1e6},
                                {"lasts_seconds", 0.001, kFaultSecondsMax},
                                {"factor", 0.01, 1e6}}));
  for (const CsvRow& row : rows) {
    const auto kind = coordinator::FaultOf(row.name);
    if (!kind.ok()) return WrongCell(path, row, "fault", kind.status().message());
    const double pool = row.numbers.at("pool");
    if (pool != static_cast<int>(pool))
      return WrongCell(path, row, "pool", "expected a whole number");
    faults.push_back({.kind = *kind,
                      .pool = static_cast<int>(pool),
                      .at_seconds = row.numbers.at("at_seconds"),
                      .per_hour = row.numbers.at("per_hour"),
                      .lasts_seconds = row.numbers.at("lasts_seconds"),
                      .factor = row.numbers.at("factor")});
  }
  return faults;
}

// Of this process, the most that it had.
int64_t PeakBytes() {
  rusage usage = {};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} * 1024;
}

Json RunJson(const coordinator::JobSimulationResult& run, double took) {
  return {{"pools", run.pools},
          {"completed", run.completed},
          {"why", run.why},
          {"steps", run.steps},
          {"seconds", run.seconds},
          {"commits", run.commits},
          {"skipped_rounds", run.skipped},
          {"commits_per_hour", run.commits_per_hour},
          {"contributed", run.contributed},
          {"utilization", run.utilization},
          {"utilization_least", run.utilization_least},
          {"utilization_most", run.utilization_most},
          {"forecast_utilization", run.forecast_utilization},
          {"forecast_seconds", run.forecast_seconds},
          {"tokens", run.tokens},
          {"committed_tokens", run.committed_tokens},
          {"goodput_tokens_per_second", run.goodput},
          {"goodput", run.goodput_share},
          {"bytes_up", run.bytes_up},
          {"bytes_down", run.bytes_down},
          {"coordinator_memory_bytes", run.coordinator_bytes},
          {"pools_lost", run.pools_lost},
          {"rank_starts", run.rank_starts},
          {"coordinator_restarts", run.coordinator_restarts},
          {"events", run.events},
          {"messages", run.messages},
          {"simulated_in_seconds", took},
          {"process_peak_bytes", PeakBytes()}};
}

std::vector<std::string> RowOf(const Json& run) {
  const auto number = [&](const char* key) { return run[key].get<double>(); };
  return {absl::StrCat(run["pools"].get<int>()),
          SecondsText(number("seconds")),
          PercentText(number("utilization")),
          PercentText(number("forecast_utilization")),
          PercentText(number("goodput")),
          CountText(number("commits_per_hour")),
          PercentText(number("contributed")),
          WholeBytesText(number("bytes_up")),
          WholeBytesText(number("bytes_down")),
          WholeBytesText(number("coordinator_memory_bytes")),
          absl::StrCat(run["pools_lost"].get<int>()),
          CountText(number("events")),
          SecondsText(number("simulated_in_seconds")),
          WholeBytesText(number("process_peak_bytes"))};
}

const std::vector<Column>& RunColumns() {
  static const auto* const kColumns = new std::vector<Column>{
      {"POOLS"},     {"JOB"},         {"COMPUTES"}, {"FORECAST"},   {"GOODPUT"},
      {"COMMITS/H"}, {"CONTRIBUTED"}, {"UP"},       {"DOWN"},       {"COORDINATOR"},
      {"LOST"},      {"EVENTS"},      {"TOOK"},     {"PEAK MEMORY"}};
  return *kColumns;
}

v1::Sites NominalSites(const ResolvedJob& job) {
  v1::Sites sites;
  sites.add_pools()->set_machine(job.spec.train().device() == v1::CUDA ? "h100" : "cpu");
  return sites;
}

}  // namespace

void AddSimulateJob(CLI::App& group, Arguments& arguments) {
  SimulateArguments& a = arguments.simulate;
  CLI::App* command = group.add_subcommand(
      "job",
      "Run a job with many pools in virtual time: the product's own decisions over modelled links, "
      "speeds and faults");
  command->add_option("-f,--file", arguments.file, "Job spec as YAML or JSON; -: standard input")
      ->type_name("FILE")
      ->required();
  command
      ->add_option("--pools", a.pools,
                   "Pools; several numbers show the growth, for example 10,100,1000")
      ->type_name("LIST")
      ->delimiter(',')
      ->check(WholeNumber(1, kPoolsMax))
      ->required();
  command
      ->add_option("--sites", arguments.sites,
                   "The machines and links of the pools, as for plan; pools take them in turn "
                   "(default: nominal machines, links of 1000 Mbit/s)")
      ->type_name("FILE");
  command
      ->add_option(
          "--rounds", a.rounds,
          absl::StrFormat("Cut the job at the end of the cycle that has so many rounds, all "
                          "fragments together (default: %d)",
                          a.rounds))
      ->type_name("N")
      ->check(WholeNumber(1, kRoundsMax));
  command
      ->add_option(
          "--faults", a.faults,
          absl::StrCat("What goes wrong: CSV with the columns fault,pool,at_seconds,"
                       "per_hour,lasts_seconds,factor; fault: ",
                       coordinator::FaultNames(), "; pool 0: a random one; per_hour 0: once"))
      ->type_name("FILE");
  command->add_option("--seed", a.seed, "Seed of the faults that are drawn (default: 0)")
      ->type_name("N")
      ->check(WholeNumber(0, 1 << 30));
  command->add_option("--set", arguments.overrides, "Change one value of the spec, as for submit")
      ->type_name("PATH=VALUE")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
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

Outcome SimulateJobs(const Arguments& arguments, const Environment& environment) {
  const SimulateArguments& a = arguments.simulate;
  auto read = ReadPlannedJob(arguments, environment);
  if (auto* error = std::get_if<CliError>(&read)) return std::move(*error);
  ResolvedJob job = std::get<ResolvedJob>(std::move(read));
  // The simulation has as many pools as it is asked for.
  job.spec.mutable_pools()->set_min(1);
  v1::Sites sites = NominalSites(job);
  if (!arguments.sites.empty()) {
    auto given = ReadSites(arguments.sites);
    if (auto* error = std::get_if<CliError>(&given)) return std::move(*error);
    sites = std::get<v1::Sites>(std::move(given));
  }
  SetGivenLinks(arguments, sites);
  std::vector<SpecViolation> violations;
  const absl::StatusOr<v1::Sites> complete = plan::CompleteSites(job, sites, &violations);
  if (!complete.ok())
    return ErrorOfSites(complete.status(), violations, "the sites of the simulation are refused");
  const auto faults = ReadFaults(a.faults);
  if (!faults.ok()) return ErrorOf(faults.status(), ExitOfFiles(faults.status()));
  Json runs = Json::array();
  std::vector<std::vector<std::string>> rows;
  std::string notes;
  for (const int pools : a.pools) {
    const absl::Time begin = absl::Now();
    const auto run = coordinator::SimulateJob(
        job, *complete, {.pools = pools, .rounds = a.rounds, .faults = *faults, .seed = a.seed});
    if (!run.ok()) return UsageError(std::string(run.status().message()));
    runs.push_back(RunJson(*run, absl::ToDoubleSeconds(absl::Now() - begin)));
    rows.push_back(RowOf(runs.back()));
    if (!run->completed)
      absl::StrAppend(&notes, "with ", pools, " pools the job does not complete: ", run->why, "\n");
  }
  Json data = runs.back();
  data["growth"] = std::move(runs);
  const std::string text =
      absl::StrFormat("%s: %d of %d steps\n%s%s", Printable(job.spec.name()),
                      data["steps"].get<int64_t>(), job.spec.train().steps(),
                      FittedTable(RunColumns(), rows, {environment.table_columns()}), notes);
  return {std::move(data), text};
}

}  // namespace longhaul::cli
