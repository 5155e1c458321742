#include "worker/data/graph/graph_sources.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/escaped_text.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/read_only_file.h"
#include "worker/data/graph/zip_member.h"
#include "yaml-cpp/depthguard.h"
#include "yaml-cpp/yaml.h"

namespace longhaul {
namespace {

constexpr int64_t kMetadataBytesMax = 1 << 20;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

absl::Status Unsupported(absl::string_view message, absl::string_view hint) {
  return WithHint(absl::InvalidArgumentError(message), hint);
}

absl::Status Missing(absl::string_view message, absl::string_view hint) {
  return WithHint(absl::NotFoundError(message), hint);
}

// --- OGB

constexpr char kOgbHint[] =
    "give the folder of one node property graph, the one with raw/ and split/ in it";

// PATH.csv.gz or PATH.csv. Empty: neither exists.
std::string CsvFile(const std::string& path) {
  for (const char* const end : {".csv.gz", ".csv"}) {
    if (Exists(path + end)) return path + end;
  }
  return "";
}

absl::StatusOr<int64_t> OnlyNumber(const NumberFile& file) {
  LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(file));
  std::vector<int64_t> values(2 * std::max<int64_t>(rows->columns(), 1));
  LH_ASSIGN_OR_RETURN(const int64_t read, rows->Read(absl::MakeSpan(values)));
  if (read * rows->columns() == 1) return values[0];
  return Unsupported(absl::StrCat(rows->name(), ": not one number of nodes"), kOgbHint);
}

absl::Status FindOgbSplit(const std::string& folder, std::string split, GraphImport& import) {
  const std::string splits = JoinPath(folder, "split");
  if (split.empty()) {
    std::vector<std::string> names;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(splits, error)) {
      std::error_code ignored;
      if (entry.is_directory(ignored)) names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    if (names.empty()) return Missing(absl::StrCat(splits, ": no split in it"), kOgbHint);
    if (names.size() > 1) {
      return Unsupported(absl::StrCat(splits, ": several splits: ", absl::StrJoin(names, ", ")),
                         "choose one with --split NAME");
    }
    split = names[0];
  }
  const std::string path = JoinPath(splits, split);
  for (const auto& [name, of] : {std::pair<const char*, GraphSplit*>{"train", &import.train},
                                 {"valid", &import.valid},
                                 {"test", &import.test}}) {
    const std::string file = CsvFile(JoinPath(path, name));
    if (!file.empty()) {
      of->nodes = NumberFile{file, ""};
    } else if (Exists(JoinPath(path, "split_dict.pt"))) {
      return Unsupported(absl::StrCat(path, "/split_dict.pt: a file of PyTorch"), kTorchHint);
    } else {
      return Missing(absl::StrCat(path, "/", name, ".csv.gz does not exist"), kOgbHint);
    }
  }
  return absl::OkStatus();
}

// --- GraphBolt

// A mapping of metadata.yaml, and where it is, for messages. yaml-cpp throws where a node is not of
// the kind that is asked for; ParseGraphBolt catches it.
class GraphBoltReader {
 public:
  GraphBoltReader(const std::string& folder, const YAML::Node& root)
      : folder_(folder), root_(root) {}

  absl::StatusOr<GraphImport> Read(const std::string& task, const std::string& feature) {
    GraphImport import;
    const YAML::Node graph = root_["graph"];
    if (root_["graph_topology"] && !graph) {
      return Unsupported(absl::StrCat(name(), ": the graph is preprocessed"),
                         "give the folder above `preprocessed`, with the raw files");
    }
    const YAML::Node nodes = graph["nodes"], edges = graph["edges"];
    if (!graph || !nodes.IsSequence() || !edges.IsSequence())
      return Unsupported(absl::StrCat(name(), ": graph.nodes or graph.edges is missing"),
                         "give the folder of an OnDiskDataset of GraphBolt");
    if (nodes.size() != 1 || edges.size() < 1 || HasTypes(edges)) {
      return Unsupported(absl::StrCat(name(), ": several types of nodes or edges"),
                         "only graphs of one type are supported: export one type");
    }
    import.nodes = nodes[0]["num"].as<int64_t>(0);
    for (const YAML::Node& edge : edges) {
      LH_ASSIGN_OR_RETURN(NumberFile file, FileOf(edge, "an edge file"));
      import.edges.push_back(std::move(file));
    }
    LH_RETURN_IF_ERROR(ReadFeatures(feature, import));
    LH_RETURN_IF_ERROR(ReadTask(task, import));
    return import;
  }

 private:
  std::string name() const { return JoinPath(folder_, "metadata.yaml"); }

  static bool HasTypes(const YAML::Node& edges) {
    std::vector<std::string> types;
    for (const YAML::Node& edge : edges) types.push_back(Text(edge, "type"));
    return std::any_of(types.begin(), types.end(),
                       [&](const std::string& type) { return type != types[0]; });
  }

  static std::string Text(const YAML::Node& node, const char* key) {
    const YAML::Node value = node[key];
    return value && value.IsScalar() ? value.Scalar() : "";
  }

  absl::StatusOr<NumberFile> FileOf(const YAML::Node& node, absl::string_view what) const {
    const std::string format = Text(node, "format"), path = Text(node, "path");
    if (format == "torch")
      return Unsupported(absl::StrCat(name(), ": ", what, " is of the format torch"), kTorchHint);
    if ((format != "numpy" && format != "csv") || path.empty()) {
      return Unsupported(absl::StrCat(name(), ": ", what, " has no path, or the format \"",
                                      EscapedLine(format.substr(0, 40)), "\""),
                         "the formats csv and numpy are supported");
    }
    return NumberFile{path[0] == '/' ? path : JoinPath(folder_, path), ""};
  }

  absl::Status ReadFeatures(const std::string& feature, GraphImport& import) const {
    std::vector<std::string> names;
    // One that is not chosen may be of any format.
    std::vector<YAML::Node> found;
    for (const YAML::Node& data : root_["feature_data"]) {
      if (Text(data, "domain") != "node") continue;
      names.push_back(Text(data, "name"));
      found.push_back(data);
    }
    size_t chosen =
        std::find(names.begin(), names.end(), feature.empty() ? "feat" : feature) - names.begin();
    if (feature.empty() && names.size() == 1) chosen = 0;
    if (names.empty()) {
      return Unsupported(absl::StrCat(name(), ": no feature of nodes"),
                         "features of nodes are required: use `longhaul graph import edges`");
    }
    if (chosen == names.size()) {
      return Unsupported(absl::StrCat(name(), ": the features of nodes are ",
                                      EscapedLine(absl::StrJoin(names, ", "))),
                         "choose one with --feature NAME");
    }
    LH_ASSIGN_OR_RETURN(
        import.features,
        FileOf(found[chosen], absl::StrCat("the feature ", EscapedLine(names[chosen]))));
    return absl::OkStatus();
  }

  absl::Status ReadTask(const std::string& task, GraphImport& import) const {
    for (const YAML::Node& of : root_["tasks"]) {
      if (!task.empty() && Text(of, "name") != task) continue;
      import.classes = of["num_classes"].as<int64_t>(0);
      if (import.classes < 0 || import.classes > kGraphClassesMax)
        return Unsupported(absl::StrCat(name(), ": num_classes is ", import.classes),
                           absl::StrCat("0 to ", kGraphClassesMax, " are supported"));
      for (const auto& [key, split] :
           {std::pair<const char*, GraphSplit*>{"train_set", &import.train},
            {"validation_set", &import.valid},
            {"test_set", &import.test}})
        LH_RETURN_IF_ERROR(ReadSplit(of[key], key, *split));
      if (import.train.nodes.has_value()) return absl::OkStatus();
      return Unsupported(absl::StrCat(name(), ": the task has no train_set with seeds"),
                         "only node classification and link prediction are supported");
    }
    return Unsupported(absl::StrCat(name(), ": no such task"),
                       "choose a task with --task NAME, or use `longhaul graph import edges`");
  }

  absl::Status ReadSplit(const YAML::Node& sets, absl::string_view key, GraphSplit& split) const {
    if (!sets || sets.IsNull()) return absl::OkStatus();
    if (!sets.IsSequence() || sets.size() != 1)
      return Unsupported(absl::StrCat(name(), ": ", key, " is not a list of one set"),
                         "only graphs of one type are supported");
    for (const YAML::Node& data : sets[0]["data"]) {
      const std::string called = Text(data, "name");
      // Which query a held-out pair belongs to.
      if (called == "indexes" && key != "train_set") continue;
      if (called != "seeds" && called != "labels" && called != "seed_nodes") {
        return Unsupported(
            absl::StrCat(name(), ": ", key, " has ", EscapedLine(called.substr(0, 40))),
            "seeds and labels are supported: of nodes, or of pairs");
      }
      LH_ASSIGN_OR_RETURN(NumberFile file, FileOf(data, absl::StrCat(called, " of ", key)));
      (called == "labels" ? split.labels : split.nodes) = std::move(file);
    }
    if (split.labels.has_value() && !split.nodes.has_value())
      return Unsupported(absl::StrCat(name(), ": ", key, " has labels without seeds"),
                         "give the seeds");
    return absl::OkStatus();
  }

  const std::string folder_;
  const YAML::Node root_;
};

// Seeds of two columns are pairs: a task of links.
absl::Status FindPairs(GraphImport& import) {
  for (const auto& [split, pairs] :
       {std::pair<GraphSplit*, GraphPairs*>{&import.train, &import.train_pairs},
        {&import.valid, &import.valid_pairs},
        {&import.test, &import.test_pairs}}) {
    if (!split->nodes.has_value()) continue;
    LH_ASSIGN_OR_RETURN(const auto rows, NumberRows::Open(*split->nodes));
    if (rows->columns() != 2) continue;
    *pairs = {.pairs = split->nodes, .labels = split->labels};
    *split = {};
  }
  if (import.train_pairs.pairs.has_value()) import.classes = 0;
  return absl::OkStatus();
}

// A link split of OGB is a dict of tensors.
absl::Status RefuseOgbLinks(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(JoinPath(folder, "split"), error)) {
    const std::string train = JoinPath(entry.path().string(), "train.pt");
    if (!Exists(train)) continue;
    return Unsupported(
        absl::StrCat(train, ": a split of links, in a file of PyTorch"),
        "save the pairs of each split in Python: import numpy, torch; "
        "numpy.save(\"NAME.npy\", torch.load(FILE, weights_only=False)[\"edge\"]); give them to "
        "`longhaul graph import edges` as --train-pairs, --valid-pairs and --test-pairs");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<GraphImport> FindOgbGraph(const std::string& folder, const std::string& split) {
  GraphImport import;
  const std::string raw = JoinPath(folder, "raw"), binary = JoinPath(raw, "data.npz");
  if (!Exists(raw)) return Missing(absl::StrCat(raw, " does not exist"), kOgbHint);
  LH_RETURN_IF_ERROR(RefuseOgbLinks(folder));
  if (Exists(binary)) {
    LH_ASSIGN_OR_RETURN(import.nodes, OnlyNumber({binary, "num_nodes_list"}));
    import.edges = {{ binary, "edge_index" }};
    import.features = {binary, "node_feat"};
    LH_ASSIGN_OR_RETURN(const bool features, HasZipMember(binary, "node_feat.npy"));
    if (!features)
      return Missing(absl::StrCat(binary, ": no node_feat"),
                     "features of nodes are required: use `longhaul graph import edges`");
    import.labels = NumberFile{JoinPath(raw, "node-label.npz"), "node_label"};
    LH_RETURN_IF_ERROR(FindOgbSplit(folder, split, import));
    return import;
  }
  if (!CsvFile(JoinPath(raw, "triplet-type-list")).empty() ||
      !CsvFile(JoinPath(raw, "num-node-dict")).empty()) {
    return Unsupported(absl::StrCat(raw, ": several types of nodes or edges"),
                       "only graphs of one type are supported");
  }
  const auto required = [&](const char* name, const char* hint) -> absl::StatusOr<std::string> {
    std::string file = CsvFile(JoinPath(raw, name));
    if (!file.empty()) return file;
    return Missing(absl::StrCat(raw, "/", name, ".csv.gz does not exist"), hint);
  };
  LH_ASSIGN_OR_RETURN(const std::string count, required("num-node-list", kOgbHint));
  LH_ASSIGN_OR_RETURN(import.nodes, OnlyNumber({count, ""}));
  LH_ASSIGN_OR_RETURN(const std::string edges, required("edge", kOgbHint));
  import.edges = {{ edges, "" }};
  LH_ASSIGN_OR_RETURN(
      import.features.path,
      required("node-feat", "features of nodes are required: use `longhaul graph import edges`"));
  LH_ASSIGN_OR_RETURN(const std::string labels, required("node-label", kOgbHint));
  import.labels = NumberFile{labels, ""};
  LH_RETURN_IF_ERROR(FindOgbSplit(folder, split, import));
  return import;
}

absl::StatusOr<GraphImport> FindGraphBoltGraph(const std::string& folder, const std::string& task,
                                               const std::string& feature) {
  const std::string path = JoinPath(folder, "metadata.yaml");
  const absl::StatusOr<std::string> text = ReadRegularFile(path, kMetadataBytesMax);
  if (!text.ok())
    return WithHint(text.status(), "give the folder of an OnDiskDataset of GraphBolt");
  LH_ASSIGN_OR_RETURN(GraphImport import, ParseGraphBolt(folder, *text, task, feature));
  LH_RETURN_IF_ERROR(FindPairs(import));
  return import;
}

absl::StatusOr<GraphImport> ParseGraphBolt(const std::string& folder, absl::string_view yaml,
                                           const std::string& task, const std::string& feature) {
  const std::string name = JoinPath(folder, "metadata.yaml");
  constexpr char kHint[] = "give the folder of an OnDiskDataset of GraphBolt";
  try {  // yaml-cpp reports by exceptions; this is the one call boundary.
    return GraphBoltReader(folder, YAML::Load(std::string(yaml))).Read(task, feature);
  } catch (const YAML::DeepRecursion&) {
    return Unsupported(absl::StrCat(name, ": values are nested too deep"), kHint);
  } catch (const YAML::Exception& e) {
    return Unsupported(absl::StrCat(name, ": line ", e.mark.line + 1, ": ", e.msg), kHint);
  }
}

}  // namespace longhaul
