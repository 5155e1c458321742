#include "coordinator/cli/simulate_partition.h"

#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "common/base/bytes_text.h"
#include "common/command_line/value_checks.h"
#include "common/plan/partition_costs.h"
#include "coordinator/cli/table.h"

namespace longhaul::cli {
namespace {

constexpr double kParametersMax = 1e13, kLinkRateMin = 1e-6, kRateMax = 1e6;
constexpr int kRanksPlanned = 4096;

// GB/s into a rank, by level. Zero: not given.
struct Links {
  double pair = 0, node = 0, pool = 0;
};

std::optional<Links> LinksOf(const std::string& text) {
  const std::vector<std::string> parts = absl::StrSplit(text, ',');
  Links links;
  double* const values[] = {&links.pair, &links.node, &links.pool};
  if (parts.size() != std::size(values)) return std::nullopt;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (!absl::SimpleAtod(parts[i], values[i]) || !(*values[i] >= kLinkRateMin) ||
        *values[i] > kRateMax)
      return std::nullopt;
  }
  return links;
}

// A model of one matrix a layer.
ModelLayout LayoutOf(double parameters, int layers) {
  ModelLayout layout;
  const auto all = static_cast<int64_t>(std::llround(parameters));
  for (int layer = 0; layer < layers; ++layer) {
    const int64_t elements = all / layers + (layer < all % layers ? 1 : 0);
    const TensorLayout matrix{"matrix", {1, elements}, /*offset=*/0, elements, /*decay=*/true};
    layout.units.push_back(
        {absl::StrCat("layer ", layer), UnitKind::kBlock, layer, elements, {matrix}});
  }
  return layout;
}

// As partition_traffic (tests/benchmark) prints them: of other nodes what a whole node receives.
Json LevelsJson(const plan::LevelBytes& bytes, int node) {
  return {{"pair", bytes.pair}, {"node", bytes.node}, {"pool", bytes.pool * node}};
}

double SecondsOf(const plan::LevelBytes& bytes, const Links& links) {
  return bytes.pair / (links.pair * 1e9) + bytes.node / (links.node * 1e9) +
         bytes.pool / (links.pool * 1e9);
}

}  // namespace

void AddPartition(CLI::App& group, SimulateArguments& a) {
  CLI::App* command = group.add_subcommand(
      "partition", "Bytes that the ranks of a pool exchange in a step, and what they keep");
  command->add_option("--params", a.parameters, "Parameters of the model, all in matrices")
      ->type_name("N")
      ->check(Number(1, kParametersMax))
      ->required();
  command->add_option("--layers", a.layers, "Its layers; the parameters are spread evenly")
      ->type_name("L")
      ->check(WholeNumber(1, 10000))
      ->required();
  std::vector<std::string> presets;
  for (const char* preset : PartitionPresets()) presets.emplace_back(preset);
  command->add_option("--preset", a.preset, "Partition preset (default: zeropp)")
      ->check(OneOf(presets));
  command->add_option("--node", a.node, "Ranks of a node (default: 8); two neighbours are a pair")
      ->type_name("N")
      ->check(WholeNumber(1, kRanksPlanned));
  command->add_option("--ranks", a.ranks, "Ranks of the pool, a multiple of --node")
      ->type_name("N")
      ->check(WholeNumber(1, kRanksPlanned))
      ->required();
  command->add_option("--accumulation", a.accumulation, "Micro-batches of a step (default: 1)")
      ->type_name("N")
      ->check(WholeNumber(1, 100000));
  command->add_flag("--float32", a.float32, "The model computes in float32 (default: bf16)");
  command
      ->add_option("--links", a.links,
                   "GB/s into a rank: from its pair, from its node, from other nodes, for example "
                   "200,75,12.5; then times are shown, without overlap")
      ->type_name("PAIR,NODE,POOL");
}

Outcome SimulatePartition(const SimulateArguments& a) {
  if (a.ranks % a.node != 0) {
    return UsageError(
        absl::StrFormat("--ranks: %d is not a multiple of --node %d", a.ranks, a.node),
        "all nodes have the same number of ranks");
  }
  if (a.parameters < a.layers)
    return UsageError("--params: fewer parameters than layers", "give more --params");
  std::optional<Links> links;
  if (!a.links.empty()) {
    links = LinksOf(a.links);
    if (!links.has_value()) {
      return UsageError(absl::StrCat("--links: '", a.links, "' is not three positive rates from ",
                                     kLinkRateMin, " to ", kRateMax),
                        "GB/s of pair, node and pool, for example 200,75,12.5");
    }
  }
  auto topology = Topology::Make(std::vector<int>(a.ranks / a.node, a.node));
  if (!topology.ok()) return UsageError(std::string(topology.status().message()));
  const auto map = PartitionPreset(a.preset);
  if (!map.ok()) return UsageError(std::string(map.status().message()));
  if (const absl::Status fits = CheckTopology(*map, *topology); !fits.ok())
    return UsageError(std::string(fits.message()), "give another --node or --preset");
  const plan::PartitionSetting setting{.layout = LayoutOf(a.parameters, a.layers),
                                       .topology = *std::move(topology),
                                       .map = *map,
                                       .bf16 = !a.float32,
                                       .accumulation = a.accumulation};
  const plan::PartitionTraffic traffic = plan::TrafficOf(setting);
  const plan::PartitionState state = plan::StateOf(setting);

  Json data = {{"received", Json::object()}, {"scales", Json::object()}};
  std::vector<std::vector<std::string>> rows;
  const auto text = [](double bytes) { return BytesText(std::llround(bytes)); };
  const std::pair<const char*, const plan::UseBytes*> uses[] = {{"forward", &traffic.forward},
                                                                {"backward", &traffic.backward},
                                                                {"gradient", &traffic.gradient},
                                                                {"refresh", &traffic.refresh}};
  Json seconds = Json::object();
  double all_seconds = 0;
  for (const auto& [name, use] : uses) {
    data["received"][name] = LevelsJson(use->payload, a.node);
    data["scales"][name] = LevelsJson(use->scales, a.node);
    const plan::LevelBytes total = use->total();
    rows.push_back({name, text(total.pair), text(total.node), text(total.pool)});
    if (!links.has_value()) continue;
    const double of_use = SecondsOf(total, *links);
    all_seconds += of_use;
    seconds[name] = of_use;
    rows.back().push_back(absl::StrFormat("%.3g s", of_use));
  }
  data["state_bytes_per_rank"] = {{"weights", state.weights},
                                  {"secondary", state.secondary},
                                  {"gradients", state.gradients},
                                  {"optimizer", state.optimizer},
                                  {"error_feedback", state.error_feedback}};
  std::vector<Column> columns = {
      {"RECEIVED FOR"}, {"FROM ITS PAIR"}, {"FROM ITS NODE"}, {"FROM OTHER NODES"}};
  std::string table;
  if (links.has_value()) {
    seconds["all"] = all_seconds;
    data["seconds"] = std::move(seconds);
    columns.push_back({"TIME"});
  }
  absl::StrAppend(&table, "A rank receives in a step:\n", FittedTable(columns, rows));
  if (links.has_value()) absl::StrAppend(&table, absl::StrFormat("together %.3g s\n", all_seconds));
  absl::StrAppend(&table, "A rank keeps ", text(state.sum()), ": weights ", text(state.weights),
                  ", secondary copy ", text(state.secondary), ", gradients ", text(state.gradients),
                  ", optimizer ", text(state.optimizer), "\n");
  return {std::move(data), std::move(table)};
}

}  // namespace longhaul::cli
