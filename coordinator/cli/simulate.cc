#include "coordinator/cli/simulate.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/status_macros.h"
#include "common/command_line/value_checks.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/plan/clock_model.h"
#include "common/plan/gather_requests.h"
#include "common/plan/stride_law.h"
#include "common/plan/utilization.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/csv_rows.h"
#include "coordinator/cli/simulate_host.h"
#include "coordinator/cli/simulate_job.h"
#include "coordinator/cli/simulate_partition.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

constexpr int64_t kCsvBytesMax = 64 << 20;
constexpr int kStrideFirst = 2, kStrideLast = 16;

// Of the CSV files of `cores`.
constexpr char kWorkload[] = "workload";
constexpr double kGhzMin = 1e-6, kGhzMax = 1e6;
constexpr double kSecondsMin = 1e-9, kSecondsMax = 1e9;
constexpr double kMillionsMin = 1e-6, kMillionsMax = 1e12;
constexpr char kInOrderName[] = "in-order", kOutOfOrderName[] = "out-of-order";
// Misses of L3 per thousand instructions. The programs of SPEC CPU2006 have 5 and more, or 0.6 and
// less.
constexpr double kMemoryBoundMisses = 1;

CLI::Validator Positive(double most) { return Number(1e-12, most); }

void AddUtilization(CLI::App& group, SimulateArguments& a) {
  CLI::App* command = group.add_subcommand(
      "utilization", "How much of the time sites compute while they exchange over a link");
  command->add_option("--params", a.parameters, "Parameters of the model")
      ->type_name("N")
      ->check(Number(1, 1e15))
      ->required();
  command->add_option("--layers", a.layers, "Its layers; the parameters are spread evenly")
      ->type_name("L")
      ->check(WholeNumber(1, 10000))
      ->required();
  command->add_option("--step-time", a.step_seconds, "Seconds of an inner step")
      ->type_name("S")
      ->check(Positive(1e6))
      ->required();
  command
      ->add_option(
          "--method", a.method,
          "dp (after every step), diloco (all layers every h steps), streaming (fragments), "
          "overlap (fragments, tau 1) or overlap-fp4 (the same with 4 bits)")
      ->check(OneOf({"dp", "diloco", "streaming", "overlap", "overlap-fp4"}))
      ->required();
  command->add_option("--h", a.h, "Inner steps between exchanges of a fragment (default: 100)")
      ->type_name("H")
      ->check(WholeNumber(1, 100000))
      ->each([&a](const std::string&) { a.h_given = true; });
  command->add_option("--bits", a.bits, "Bits of a parameter on the link (default: 16, or 4)")
      ->type_name("N")
      ->check(Number(0.01, 64))
      ->each([&a](const std::string&) { a.bits_given = true; });
  command->add_option("--fragment-layers", a.fragment_layers, "Layers of a fragment (default: 3)")
      ->type_name("N")
      ->check(WholeNumber(1, 10000))
      ->each([&a](const std::string&) { a.fragment_layers_given = true; });
  command->add_option("--tau", a.tau, "Steps that continue during an exchange (default: 0, or 1)")
      ->type_name("N")
      ->check(WholeNumber(0, 100000))
      ->each([&a](const std::string&) { a.tau_given = true; });
  CLI::Option* targets =
      command
          ->add_option(
              "--targets", a.targets,
              "The bandwidth that each utilization needs, on a grid of 50 from 0.1 to 1000 "
              "Gbit/s, for example 0.5,0.9,0.99")
          ->type_name("LIST")
          ->delimiter(',')
          ->check(Number(0.0001, 1));
  CLI::Option* bandwidth =
      command->add_option("--bandwidth", a.gbit_per_second, "The utilization at this bandwidth")
          ->type_name("GBIT")
          ->check(Positive(1e9));
  targets->excludes(bandwidth);
}

void AddOffload(CLI::App& group, SimulateArguments& a) {
  CLI::App* command = group.add_subcommand(
      "offload",
      "How long an optimizer update takes if a device does one of every k subgroups of the host");
  command->add_option("--params", a.parameters, "Parameters of a rank; needed with rates")
      ->type_name("N")
      ->check(Number(1, 1e15));
  command
      ->add_option("--point", a.points,
                   "A measured time: K=SECONDS; twice or more, in place of the rates")
      ->type_name("K=SECONDS");
  const std::pair<const char*, std::pair<double*, const char*>> rates[] = {
      {"--host-rate", {&a.host_rate, "Parameters per second that the host updates"}},
      {"--device-rate", {&a.device_rate, "Parameters per second that the device updates"}},
      {"--up-rate", {&a.up_rate, "Bytes per second to the device"}},
      {"--down-rate", {&a.down_rate, "Bytes per second from the device"}},
      {"--memory-rate", {&a.memory_rate, "Bytes per second of the host's memory"}}};
  for (const auto& [name, rate] : rates) {
    command->add_option(name, *rate.first, rate.second)->type_name("N")->check(Number(1, 1e18));
  }
  command->add_option("--ranks", a.ranks, "Ranks that share the host's memory (default: 1)")
      ->type_name("N")
      ->check(WholeNumber(1, 1024));
}

void AddGather(CLI::App& group, SimulateArguments& a) {
  CLI::App* command = group.add_subcommand(
      "gather-requests", "Requests of 128 bytes per row when a GPU gathers rows from host memory");
  command->add_option("--dim", a.dim, "Elements of a row, of 4 bytes each")
      ->type_name("D")
      ->check(WholeNumber(1, 1 << 24))
      ->required();
  command->add_flag("--aligned", a.aligned, "Accesses begin at multiples of 128 bytes");
}

void AddCores(CLI::App& group, SimulateArguments& a) {
  CLI::App* command = group.add_subcommand(
      "cores", "What faster cores and caches bring, and which of them stops paying");
  CLI::Option* calibrate = command
                               ->add_option("--calibrate", a.calibrate,
                                            "Measured times: CSV with the columns "
                                            "workload,core_ghz,l1_ghz,l2_ghz,l3_ghz,seconds")
                               ->type_name("FILE");
  CLI::Option* counters =
      command
          ->add_option("--counters", a.counters,
                       "Or counters of one run with equal clocks: CSV with the "
                       "columns workload,core_ghz,instr,l1i,l1d,l1d_miss,l2_acc,l2_miss,l3_acc,"
                       "l3_miss,ms; counts in millions")
          ->type_name("FILE");
  calibrate->excludes(counters);
  CLI::Option* host = command->add_flag(
      "--host", a.host,
      "Measure Longhaul's own kernels on this machine over growing working sets, for some seconds, "
      "and say what each is bound by");
  host->excludes(calibrate)->excludes(counters);
  command
      ->add_option("--threads", a.threads,
                   "With --host: threads that work at once (default: one for each core)")
      ->type_name("N")
      ->check(WholeNumber(1, 4096))
      ->needs(host);
  CLI::Option* core =
      command
          ->add_option(
              "--core", a.core,
              "in-order: it waits for each access, and its times add up (default with "
              "--calibrate); out-of-order: it hides a part of them (default with --counters)")
          ->type_name("KIND")
          ->check(OneOf({kInOrderName, kOutOfOrderName}));
  CLI::Option* predict =
      command
          ->add_option(
              "--predict", a.predict,
              "Clocks to predict: CSV with the columns workload,core_ghz,l1_ghz,l2_ghz,l3_ghz "
              "(default: the clocks of the other file)")
          ->type_name("FILE");
  host->excludes(core)->excludes(predict);
}

// The model that the method stands for. What is given explicitly counts.
plan::ExchangeModel ModelOf(const SimulateArguments& a) {
  plan::ExchangeModel model{.parameters = a.parameters,
                            .layers = a.layers,
                            .step_seconds = a.step_seconds,
                            .h = a.method == "dp" && !a.h_given ? 1 : a.h,
                            .bits = a.method == "overlap-fp4" && !a.bits_given ? 4 : a.bits};
  const bool overlaps = absl::StartsWith(a.method, "overlap");
  model.tau = overlaps && !a.tau_given ? 1 : a.tau;
  const bool whole = a.method == "dp" || a.method == "diloco";
  model.fragment_layers =
      whole && !a.fragment_layers_given ? a.layers : std::min(a.fragment_layers, a.layers);
  return model;
}

Outcome SimulateUtilization(const SimulateArguments& a) {
  if (a.targets.empty() == (a.gbit_per_second == 0))
    return UsageError("give --targets or --bandwidth",
                      "for example --targets 0.5,0.9 or --bandwidth 1");
  const plan::ExchangeModel model = ModelOf(a);
  const int fragments = (model.layers + model.fragment_layers - 1) / model.fragment_layers;
  if (fragments > model.h) {
    return UsageError(
        absl::StrFormat("%d fragments do not fit into h = %d steps", fragments, model.h),
        "give more --fragment-layers or a larger --h");
  }
  if (model.tau >= model.h && model.tau > 0) {
    return UsageError(absl::StrFormat("--tau: %d steps are not below h = %d", model.tau, model.h),
                      "a fragment arrives before its next exchange: give a smaller --tau");
  }
  if (a.targets.empty()) {
    const double utilization = plan::Utilization(model, a.gbit_per_second * 1e9);
    return {Json{{"utilization", utilization}},
            absl::StrFormat("utilization %.2f %%\n", 100 * utilization)};
  }
  Json targets = Json::array();
  std::vector<std::vector<std::string>> rows;
  for (const double target : a.targets) {
    const std::optional<double> needed = plan::BandwidthFor(model, target);
    targets.push_back({{"utilization", target},
                       {"gbit_per_second", needed ? Json(*needed / 1e9) : Json(nullptr)}});
    rows.push_back({absl::StrFormat("%g %%", 100 * target),
                    needed ? absl::StrFormat("%.1f", *needed / 1e9) : "more than 1000"});
  }
  return {Json{{"targets", std::move(targets)}}, FittedTable({{"UTILIZATION"}, {"GBIT/S"}}, rows)};
}

absl::StatusOr<plan::StrideLaw> LawOf(const std::vector<std::string>& points) {
  std::vector<plan::StridePoint> parsed;
  for (const std::string& text : points) {
    const std::vector<std::string> sides = absl::StrSplit(text, '=');
    plan::StridePoint point;
    if (sides.size() != 2 || !absl::SimpleAtoi(sides[0], &point.stride) ||
        !absl::SimpleAtod(sides[1], &point.seconds)) {
      return absl::InvalidArgumentError(
          absl::StrCat("--point: '", text, "' is not K=SECONDS, for example 2=1.336"));
    }
    parsed.push_back(point);
  }
  return plan::FitStrideLaw(parsed);
}

Outcome SimulateOffload(const SimulateArguments& a) {
  const bool rates = a.host_rate > 0 && a.device_rate > 0 && a.up_rate > 0 && a.down_rate > 0 &&
                     a.memory_rate > 0 && a.parameters > 0;
  if (a.points.empty() == !rates) {
    return UsageError("give --point twice or more, or --params and all five rates",
                      "for example --point 2=1.336 --point 8=1.50");
  }
  Json data = Json::object();
  std::optional<plan::StrideLaw> law;
  if (!a.points.empty()) {
    auto fitted = LawOf(a.points);
    if (!fitted.ok()) return UsageError(std::string(fitted.status().message()));
    law = *fitted;
    data = {{"host_seconds", law->host}, {"device_seconds", law->device}};
  }
  const plan::UpdateResources resources{a.parameters, a.host_rate,   a.device_rate, a.up_rate,
                                        a.down_rate,  a.memory_rate, a.ranks};
  Json strides = Json::array();
  std::vector<std::vector<std::string>> rows;
  int best = 0;
  double least = 0;
  for (int stride = kStrideFirst; stride <= kStrideLast; ++stride) {
    const double seconds = law ? law->Seconds(stride) : plan::BoundSeconds(resources, stride);
    if (best == 0 || seconds < least) best = stride, least = seconds;
    strides.push_back({{"stride", stride}, {"seconds", seconds}});
    rows.push_back({absl::StrCat(stride), absl::StrFormat("%.4g", seconds)});
  }
  data["strides"] = std::move(strides);
  data["best_stride"] = best;
  return {std::move(data), absl::StrCat(FittedTable({{"STRIDE"}, {"SECONDS"}}, rows),
                                        "the fastest is ", best, "\n")};
}

Outcome SimulateGather(const SimulateArguments& a) {
  const double requests = plan::GatherRequests(a.dim, a.aligned);
  return {Json{{"dim", a.dim}, {"aligned", a.aligned}, {"requests", requests}},
          absl::StrFormat("%.2f requests per row of %d elements\n", requests, a.dim)};
}

// --- cores

struct Baseline {
  plan::Clocks clocks;
  double seconds = 0;
};
struct Workload {
  plan::ClockModel model;
  // The run with the slowest core.
  Baseline baseline;
  // Of counters.
  std::optional<plan::Counters> counters;
};
struct Calibration {
  std::map<std::string, Workload> workloads;
  std::vector<CsvRow> rows;
};

std::vector<CsvColumn> Columns(std::initializer_list<const char*> headings, double least,
                               double most) {
  std::vector<CsvColumn> columns;
  for (const char* const heading : headings) columns.push_back({heading, least, most});
  return columns;
}

std::vector<CsvColumn> ClockColumns() {
  return Columns({"core_ghz", "l1_ghz", "l2_ghz", "l3_ghz"}, kGhzMin, kGhzMax);
}

plan::Clocks ClocksOf(const CsvRow& row) {
  return {row.numbers.at("core_ghz"), row.numbers.at("l1_ghz"), row.numbers.at("l2_ghz"),
          row.numbers.at("l3_ghz")};
}

bool SameClocks(const plan::Clocks& a, const plan::Clocks& b) {
  return a.core == b.core && a.l1 == b.l1 && a.l2 == b.l2 && a.l3 == b.l3;
}

absl::StatusOr<std::vector<CsvRow>> ReadCsv(const std::string& path,
                                            const std::vector<CsvColumn>& columns) {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadFile(*MakePosixFileSystem(), path, kCsvBytesMax));
  return ParseCsv(path, text, kWorkload, columns);
}

absl::StatusOr<Calibration> FromTimes(const std::string& path, plan::CoreKind core) {
  Calibration result;
  std::vector<CsvColumn> columns = ClockColumns();
  columns.push_back({"seconds", kSecondsMin, kSecondsMax});
  LH_ASSIGN_OR_RETURN(result.rows, ReadCsv(path, columns));
  std::map<std::string, std::vector<plan::ClockSample>> samples;
  for (const CsvRow& row : result.rows) {
    const plan::ClockSample& sample =
        samples[row.name].emplace_back(plan::ClockSample{ClocksOf(row), row.numbers.at("seconds")});
    Baseline& baseline = result.workloads[row.name].baseline;
    if (baseline.seconds == 0 || sample.clocks.core < baseline.clocks.core)
      baseline = {sample.clocks, sample.seconds};
  }
  std::set<std::string> fitted;
  for (const CsvRow& row : result.rows) {
    if (!fitted.insert(row.name).second) continue;
    const std::vector<plan::ClockSample>& of = samples[row.name];
    if (std::all_of(of.begin(), of.end(), [&](const plan::ClockSample& sample) {
          return SameClocks(sample.clocks, of.front().clocks);
        })) {
      return WrongCell(
          path, row, kWorkload,
          absl::StrCat(row.name, of.size() == 1 ? " has one time" : " has times at one clock",
                       "; expected two clocks or more"));
    }
    LH_ASSIGN_OR_RETURN(result.workloads[row.name].model, plan::FitClocks(of, core));
  }
  return result;
}

absl::StatusOr<Calibration> FromCounterFile(const std::string& path, plan::CoreKind core) {
  Calibration result;
  std::vector<CsvColumn> columns = Columns({"core_ghz"}, kGhzMin, kGhzMax);
  columns.push_back({"instr", kMillionsMin, kMillionsMax});
  for (CsvColumn& column : Columns(
           {"l1i", "l1d", "l1d_miss", "l2_acc", "l2_miss", "l3_acc", "l3_miss"}, 0, kMillionsMax))
    columns.push_back(std::move(column));
  columns.push_back({"ms", kSecondsMin, 1000 * kSecondsMax});
  LH_ASSIGN_OR_RETURN(result.rows, ReadCsv(path, columns));
  for (CsvRow& row : result.rows) {
    const plan::Counters counters{.ghz = row.numbers["core_ghz"],
                                  .seconds = row.numbers["ms"] / 1e3,
                                  .instructions = row.numbers["instr"],
                                  .l1i = row.numbers["l1i"],
                                  .l1d = row.numbers["l1d"],
                                  .l2_accesses = row.numbers["l2_acc"],
                                  .l3_accesses = row.numbers["l3_acc"],
                                  .l3_misses = row.numbers["l3_miss"]};
    if (result.workloads.contains(row.name))
      return WrongCell(path, row, kWorkload,
                       absl::StrCat(row.name, " comes twice; expected one run of each"));
    for (const char* level : {"l1_ghz", "l2_ghz", "l3_ghz"}) row.numbers[level] = counters.ghz;
    Workload& workload = result.workloads[row.name];
    workload.baseline = {ClocksOf(row), counters.seconds};
    workload.counters = counters;
    LH_ASSIGN_OR_RETURN(
        workload.model,
        plan::FromCounters(counters,
                           core == plan::CoreKind::kInOrder ? plan::kInOrder : plan::kOutOfOrder));
  }
  return result;
}

Json PredictionOf(const std::string& name, const Workload& workload, const plan::Clocks& clocks) {
  const double seconds = workload.model.Seconds(clocks);
  const std::optional<double> stops = workload.model.CoreStopsPaying(clocks);
  const std::optional<plan::ClockTerm> by = workload.model.CoreStoppedBy(clocks);
  Json item = {{"workload", name},
               {"core_ghz", clocks.core},
               {"l1_ghz", clocks.l1},
               {"l2_ghz", clocks.l2},
               {"l3_ghz", clocks.l3},
               {"seconds", seconds},
               {"speedup", workload.baseline.seconds / seconds},
               {"limit", plan::ClockTermName(workload.model.Limit(clocks))},
               {"core_stops_paying_ghz", stops ? Json(*stops) : Json(nullptr)},
               {"core_stopped_by", by ? Json(plan::ClockTermName(*by)) : Json(nullptr)}};
  if (!workload.counters.has_value()) return item;
  const double misses = workload.counters->MissesPerThousandInstructions();
  item["fetch_bound_seconds"] = plan::FetchBoundSeconds(workload.counters->l1i, clocks.l1);
  item["l3_misses_per_thousand_instructions"] = misses;
  item["memory_bound"] = misses >= kMemoryBoundMisses;
  return item;
}

Outcome SimulateCores(const SimulateArguments& a) {
  if (a.host) return SimulateHost(a.threads);
  if (a.calibrate.empty() && a.counters.empty())
    return UsageError("give --calibrate, --counters or --host", "`longhaul simulate cores --help`");
  const bool times = a.counters.empty();
  const bool in_order = a.core.empty() ? times : a.core == kInOrderName;
  const plan::CoreKind core = in_order ? plan::CoreKind::kInOrder : plan::CoreKind::kOutOfOrder;
  const auto calibration = times ? FromTimes(a.calibrate, core) : FromCounterFile(a.counters, core);
  if (!calibration.ok()) return ErrorOf(calibration.status(), ExitOfFiles(calibration.status()));
  std::vector<CsvRow> rows = calibration->rows;
  if (!a.predict.empty()) {
    auto read = ReadCsv(a.predict, ClockColumns());
    if (!read.ok()) return ErrorOf(read.status(), ExitOfFiles(read.status()));
    rows = *std::move(read);
  }
  Json data = Json::array();
  std::vector<std::vector<std::string>> table;
  for (const CsvRow& row : rows) {
    const auto workload = calibration->workloads.find(row.name);
    if (workload == calibration->workloads.end()) {
      const absl::Status wrong =
          WrongCell(a.predict, row, kWorkload,
                    absl::StrCat("expected a workload of ", a.calibrate, a.counters, "; workload ",
                                 Printable(row.name), " is not in it"));
      return UsageError(std::string(wrong.message()));
    }
    Json item = PredictionOf(row.name, workload->second, ClocksOf(row));
    const auto number = [&](const char* key, absl::FormatSpec<double> format) {
      return absl::StrFormat(format, item[key].get<double>());
    };
    const bool ends = !item["core_stops_paying_ghz"].is_null();
    table.push_back({row.name, number("core_ghz", "%g"), number("l1_ghz", "%g"),
                     number("l2_ghz", "%g"), number("l3_ghz", "%g"), number("seconds", "%.4g"),
                     number("speedup", "%.2f"), item["limit"],
                     ends ? number("core_stops_paying_ghz", "%.3g") : "any",
                     ends ? item["core_stopped_by"].get<std::string>() : "-"});
    data.push_back(std::move(item));
  }
  return {std::move(data), FittedTable({{"WORKLOAD", CellFit::kName},
                                        {"CORE GHZ"},
                                        {"L1"},
                                        {"L2"},
                                        {"L3"},
                                        {"SECONDS"},
                                        {"SPEEDUP"},
                                        {"LIMIT"},
                                        {"CORE PAYS UP TO"},
                                        {"STOPPED BY"}},
                                       table)};
}

}  // namespace

void AddSimulate(CLI::App& app, Arguments& arguments) {
  SimulateArguments& a = arguments.simulate;
  CLI::App* group =
      app.add_subcommand("simulate", "Ask the models behind the planner, with numbers of your own");
  group->require_subcommand(1);
  AddSimulateJob(*group, arguments);
  AddUtilization(*group, a);
  AddOffload(*group, a);
  AddGather(*group, a);
  AddPartition(*group, a);
  AddCores(*group, a);
}

Outcome Simulate(const Arguments& arguments, const Environment& environment) {
  const SimulateArguments& a = arguments.simulate;
  if (arguments.command == "simulate job") return SimulateJobs(arguments, environment);
  if (arguments.command == "simulate utilization") return SimulateUtilization(a);
  if (arguments.command == "simulate offload") return SimulateOffload(a);
  if (arguments.command == "simulate gather-requests") return SimulateGather(a);
  if (arguments.command == "simulate partition") return SimulatePartition(a);
  return SimulateCores(a);
}

}  // namespace longhaul::cli
