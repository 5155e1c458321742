#include "coordinator/cli/graph_command.h"

#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "CLI/App.hpp"
#include "CLI/Config.hpp"
#include "CLI/Formatter.hpp"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/bytes_text.h"
#include "common/base/status_hint.h"
#include "common/command_line/value_checks.h"
#include "common/graph/graph_folder.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/table.h"
#include "coordinator/cli/text.h"
#include "worker/data/graph/graph_sources.h"

namespace longhaul::cli {
namespace {

CliError GraphErrorOf(const absl::Status& status) {
  return ErrorOf(status, ExitOfFiles(status), HintIn(status));
}

std::optional<NumberFile> FileOrNone(const std::string& path) {
  if (path.empty()) return std::nullopt;
  return NumberFile{path, ""};
}

absl::StatusOr<GraphImport> ImportOf(const Arguments& arguments) {
  const GraphArguments& graph = arguments.graph;
  if (arguments.command == "graph import ogb") return FindOgbGraph(graph.folder, graph.split);
  if (arguments.command == "graph import graphbolt")
    return FindGraphBoltGraph(graph.folder, graph.task, graph.feature);
  GraphImport import;
  import.nodes = graph.nodes;
  for (const std::string& path : graph.edges) import.edges.push_back({path, ""});
  import.features = {graph.features, ""};
  import.labels = FileOrNone(graph.labels);
  import.train.nodes = FileOrNone(graph.train);
  import.valid.nodes = FileOrNone(graph.valid);
  import.test.nodes = FileOrNone(graph.test);
  import.train_pairs.pairs = FileOrNone(graph.train_pairs);
  import.valid_pairs.pairs = FileOrNone(graph.valid_pairs);
  import.test_pairs.pairs = FileOrNone(graph.test_pairs);
  import.classes = graph.classes;
  return import;
}

int64_t BytesOfArrays(const GraphManifest& manifest) {
  int64_t bytes = 0;
  for (const auto& [name, array] : manifest.arrays) {
    int64_t of_array = BytesOf(array.type);
    for (const int64_t size : array.shape) of_array *= size;
    bytes += of_array;
  }
  return bytes;
}

Outcome GraphOutcome(const std::string& path, const GraphManifest& manifest, bool verified,
                     const std::vector<std::string>& warnings) {
  const char* const direction = manifest.reverse_edges ? "reverse-edges" : "directed";
  const char* const ids = manifest.ids == GraphIds::kNone      ? "none"
                          : manifest.ids == GraphIds::kNumbers ? "numbers"
                                                               : "texts";
  const auto printable = [](const std::vector<std::string>& lines) {
    Json result = Json::array();
    for (const std::string& line : lines) result.push_back(Printable(line));
    return result;
  };
  Json json{{"path", path},
            {"nodes", manifest.nodes},
            {"edges", manifest.edges},
            {"columns", manifest.columns},
            {"classes", manifest.classes},
            {"direction", direction},
            {"duplicates_kept", manifest.duplicates_kept},
            {"pairs_read", manifest.pairs_read},
            {"merged_duplicates", manifest.merged_duplicates},
            {"dropped_loops", manifest.dropped_loops},
            {"nodes_without_in_edges", manifest.nodes_without_in_edges},
            {"labelled", manifest.labelled},
            {"train", manifest.train},
            {"valid", manifest.valid},
            {"test", manifest.test},
            {"train_pairs", manifest.train_pairs},
            {"valid_pairs", manifest.valid_pairs},
            {"test_pairs", manifest.test_pairs},
            {"held_out_edges", manifest.held_out_edges},
            {"ids", ids},
            {"class_names", printable(manifest.class_names)},
            {"feature_names", printable(manifest.feature_names)},
            {"schema_digest", manifest.SchemaDigest()},
            {"link_schema_digest", manifest.WithoutClasses().SchemaDigest()},
            {"content_digest", manifest.ContentDigest().Hex()},
            {"bytes", BytesOfArrays(manifest)},
            {"verified", verified},
            {"warnings", printable(warnings)}};
  std::vector<std::vector<std::string>> rows;
  const auto row = [&rows](const char* name, std::string value) {
    rows.push_back({name, std::move(value)});
  };
  const auto share = [](int64_t part, int64_t whole) {
    return whole == 0
               ? std::string("0")
               : absl::StrFormat("%d (%.1f %%)", part,
                                 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  };
  row("nodes", absl::StrCat(manifest.nodes));
  row("edges",
      absl::StrCat(manifest.edges, manifest.reverse_edges ? ", in both directions (--reverse-edges)"
                                                          : ", as written (--directed)"));
  row("pairs read", absl::StrCat(manifest.pairs_read));
  row("merged duplicates", manifest.duplicates_kept ? "0, since they were kept"
                                                    : absl::StrCat(manifest.merged_duplicates));
  row("dropped self-loops", absl::StrCat(manifest.dropped_loops));
  row("nodes without in-edges", share(manifest.nodes_without_in_edges, manifest.nodes));
  row("features", absl::StrCat(manifest.columns, " columns",
                               manifest.feature_names.empty() ? "" : ", with names"));
  row("classes",
      absl::StrCat(manifest.classes, manifest.class_names.empty() ? "" : ", with names"));
  row("labelled nodes", share(manifest.labelled, manifest.nodes));
  row("train, valid, test",
      absl::StrCat(manifest.train, ", ", manifest.valid, ", ", manifest.test));
  if (manifest.train_pairs + manifest.valid_pairs + manifest.test_pairs > 0) {
    row("train, valid, test pairs",
        absl::StrCat(manifest.train_pairs > 0 ? absl::StrCat(manifest.train_pairs) : "all edges",
                     ", ", manifest.valid_pairs, ", ", manifest.test_pairs));
    row("held-out edges",
        absl::StrCat(manifest.held_out_edges, ", which are validation or test pairs"));
  }
  row("ids", ids);
  row("size", BytesText(BytesOfArrays(manifest)));
  row("schema digest", manifest.SchemaDigest());
  row("schema digest for links", manifest.WithoutClasses().SchemaDigest());
  row("content digest",
      absl::StrCat(manifest.ContentDigest().Hex(), verified ? ", verified" : ", not verified"));
  std::string text = FittedTable({{"GRAPH"}, {Printable(path)}}, rows);
  for (const std::string& warning : warnings)
    absl::StrAppend(&text, "\nWarning: ", Printable(warning), "\n");
  return Outcome(std::move(json), std::move(text));
}

void AddImportOptions(CLI::App& command, Arguments& arguments) {
  GraphArguments& graph = arguments.graph;
  command.add_flag("--reverse-edges", graph.reverse_edges,
                   "Import each edge in both directions: for links, references and friendships. "
                   "Give this or --directed");
  command.add_flag("--directed", graph.directed,
                   "Import edges as written: a node reads the sources of its in-edges only");
  command.add_flag("--keep-duplicates", graph.keep_duplicates,
                   "Keep equal edges, so that a source counts as often as its edge occurs "
                   "(default: merge them)");
  command
      .add_option("--valid-share", graph.valid_share,
                  "For link prediction: share of the edges, drawn with --split-seed, that become "
                  "validation pairs and leave the graph, in both directions (default: 0)")
      ->type_name("SHARE")
      ->check(Number(0, 1));
  command
      .add_option("--test-share", graph.test_share,
                  "Share of the edges that become test pairs, likewise (default: 0)")
      ->type_name("SHARE")
      ->check(Number(0, 1));
  command
      .add_option("--split-seed", graph.split_seed,
                  "Seed that draws the edges of --valid-share and --test-share (default: 1)")
      ->type_name("N")
      ->check(WholeNumber(0, std::numeric_limits<int64_t>::max()));
  command.add_flag("--keep-held-out", graph.keep_held_out,
                   "Keep validation and test pairs among the edges (default: leave them out, so "
                   "that training cannot see what it is to predict)");
  command
      .add_option("--ids", graph.ids,
                  "Your own id of each node, in order: text with an id per line, or .npy of whole "
                  "numbers. Predictions are written with them")
      ->type_name("FILE");
  command
      .add_option("--class-names", graph.class_names,
                  "Text with the name of a class per line, in order; the same at every site")
      ->type_name("FILE");
  command
      .add_option("--feature-names", graph.feature_names,
                  "Text with the name of a column per line, in order; the same at every site")
      ->type_name("FILE");
  command
      .add_option("--memory-mib", graph.memory_mib,
                  absl::StrCat("Memory for sorting edges, in MiB (default: ", graph.memory_mib,
                               "); edges beyond it are sorted on the disk"))
      ->type_name("N")
      ->check(WholeNumber(1, 1 << 20));
  command
      .add_option("--out", arguments.out,
                  "Folder for the graph, which must not exist. While the command runs, the disk "
                  "also holds 8 bytes per edge")
      ->type_name("DIR")
      ->required();
}

void AddImportEdges(CLI::App& import, Arguments& arguments) {
  GraphArguments& graph = arguments.graph;
  CLI::App* edges = import.add_subcommand(
      "edges",
      "Import files of edges, features, labels and splits, each .npy or CSV without a "
      "heading, also compressed with gzip or zstd");
  edges->add_option("--nodes", graph.nodes, "Number of nodes; they are numbered from 0")
      ->type_name("N")
      ->check(WholeNumber(1, kGraphNodesMax))
      ->required();
  edges
      ->add_option("--edges", graph.edges,
                   "Pairs source, target: two columns, or an array (2, edges); may be repeated")
      ->type_name("FILE")
      ->required();
  edges->add_option("--features", graph.features, "A row of numbers for each node")
      ->type_name("FILE")
      ->required();
  edges
      ->add_option("--labels", graph.labels,
                   "The class of each node, from 0 on; -1 or NaN: unlabelled (default: none, for "
                   "link prediction)")
      ->type_name("FILE");
  edges
      ->add_option("--classes", graph.classes,
                   "Number of classes (default: that of --class-names, or one more than the "
                   "largest label); the same at every site")
      ->type_name("N")
      ->check(WholeNumber(1, kGraphClassesMax));
  edges
      ->add_option("--train", graph.train,
                   "Nodes to train on: their numbers, or 0 or 1 for each node. Required, except "
                   "for link prediction")
      ->type_name("FILE");
  edges->add_option("--valid", graph.valid, "Nodes to evaluate on during training, likewise")
      ->type_name("FILE");
  edges->add_option("--test", graph.test, "Nodes to evaluate on at the end, likewise")
      ->type_name("FILE");
  edges
      ->add_option("--train-pairs", graph.train_pairs,
                   "For link prediction: pairs source, target to train on, as --edges (default: "
                   "all edges of the graph)")
      ->type_name("FILE");
  edges
      ->add_option("--valid-pairs", graph.valid_pairs,
                   "Pairs to evaluate on during training. Where they are edges, in either "
                   "direction, they leave the graph")
      ->type_name("FILE");
  edges->add_option("--test-pairs", graph.test_pairs, "Pairs to evaluate on at the end, likewise")
      ->type_name("FILE");
  AddImportOptions(*edges, arguments);
}

}  // namespace

void AddGraph(CLI::App& app, Arguments& arguments) {
  GraphArguments& graph = arguments.graph;
  CLI::App* group = app.add_subcommand("graph", "Import graphs, and show imported ones");
  group->require_subcommand(1);
  CLI::App* import = group->add_subcommand(
      "import", "Write a graph to a folder that jobs read, from the files of other tools");
  import->require_subcommand(1);
  AddImportEdges(*import, arguments);
  CLI::App* ogb = import->add_subcommand(
      "ogb", "Import a node property graph of OGB: CSV (raw/edge.csv.gz) or binary (raw/data.npz)");
  ogb->add_option("FOLDER", graph.folder, "Folder with raw/ and split/")->required();
  ogb->add_option("--split", graph.split, "Folder below split/ (default: the only one)")
      ->type_name("NAME");
  AddImportOptions(*ogb, arguments);
  CLI::App* graphbolt = import->add_subcommand(
      "graphbolt",
      "Import an OnDiskDataset of GraphBolt before its preprocessing: metadata.yaml with CSV and "
      "numpy files");
  graphbolt->add_option("FOLDER", graph.folder, "Folder with metadata.yaml")->required();
  graphbolt
      ->add_option("--task", graph.task, "Task with the classes and splits (default: the first)")
      ->type_name("NAME");
  graphbolt
      ->add_option("--feature", graph.feature,
                   "Feature of nodes to import (default: feat, or the only one)")
      ->type_name("NAME");
  AddImportOptions(*graphbolt, arguments);
  // Its options are those of longhaul-lm, which gets the words as they are.
  CLI::App* predict = group->add_subcommand(
      "predict", "Predict the classes of a graph's nodes, or links, with a job's checkpoint");
  predict->fallthrough(false)->prefix_command();
  predict->set_help_flag();
  CLI::App* info = group->add_subcommand("info", "Verify a graph's folder, and show what it holds");
  info->add_option("FOLDER", graph.folder, "Folder that `longhaul graph import` made")->required();
  info->add_flag("--quick", graph.quick,
                 "Read sizes and types only, not all values (default: compare everything with its "
                 "digest)");
}

Outcome ImportGraphFiles(const Arguments& arguments) {
  const GraphArguments& graph = arguments.graph;
  if (graph.reverse_edges == graph.directed) {
    return UsageError(graph.directed ? "--reverse-edges and --directed exclude each other"
                                     : "the direction of the edges is missing",
                      "give --reverse-edges if an edge means the same in both directions, as a "
                      "link or a friendship, otherwise --directed");
  }
  const bool links = !graph.valid_pairs.empty() || graph.valid_share > 0;
  if (arguments.command == "graph import edges" && graph.train.empty() && !links) {
    return UsageError("--train is required",
                      "give the nodes to train on, or for link prediction --valid-pairs or "
                      "--valid-share");
  }
  absl::StatusOr<GraphImport> import = ImportOf(arguments);
  if (!import.ok()) return GraphErrorOf(import.status());
  import->reverse_edges = graph.reverse_edges;
  import->keep_duplicates = graph.keep_duplicates;
  import->valid_share = graph.valid_share;
  import->test_share = graph.test_share;
  import->split_seed = graph.split_seed;
  import->keep_held_out = graph.keep_held_out;
  import->ids = graph.ids;
  import->class_names = graph.class_names;
  import->feature_names = graph.feature_names;
  import->memory_bytes = int64_t{graph.memory_mib} << 20;
  import->out = arguments.out;
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const absl::StatusOr<GraphImportResult> result = ImportGraph(*fs, *import);
  if (!result.ok()) return GraphErrorOf(result.status());
  return GraphOutcome(arguments.out, result->manifest, true, result->warnings);
}

Outcome ShowGraph(const Arguments& arguments) {
  const GraphArguments& graph = arguments.graph;
  const absl::StatusOr<GraphFolder> folder =
      GraphFolder::Open(graph.folder, {.read_all = !graph.quick});
  if (!folder.ok()) return GraphErrorOf(folder.status());
  std::vector<std::string> warnings;
  if (std::string warning = WarningOfInEdges(folder->manifest()); !warning.empty())
    warnings.push_back(std::move(warning));
  return GraphOutcome(graph.folder, folder->manifest(), !graph.quick, warnings);
}

}  // namespace longhaul::cli
