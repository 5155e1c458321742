#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/macro_f1.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/config/graph_sage_spec.h"
#include "common/graph/graph_folder.h"
#include "common/graph/npy.h"
#include "common/io/mapped_file.h"
#include "worker/data/graph/id_pairs.h"
#include "worker/graph/link_pairs.h"
#include "worker/lm/commands.h"
#include "worker/lm/graph_model.h"
#include "worker/lm/result_folder.h"

namespace longhaul {
namespace {

absl::StatusOr<std::unique_ptr<CheckpointFolder>> OpenCheckpoint(const std::string& folder) {
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    return WithHint(absl::NotFoundError(absl::StrCat(folder, ": no such folder")),
                    "give a job (JOB or JOB@STEP), or the folder of a checkpoint (step-...)");
  }
  if (!CheckpointFolder::IsOne(folder)) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrCat(folder,
                                                ": has no manifest.json, so it is not the "
                                                "folder of a checkpoint")),
        "give what `longhaul download` wrote, or the job's name; an exported model is for other "
        "programs");
  }
  LH_ASSIGN_OR_RETURN(std::unique_ptr<CheckpointFolder> checkpoint, CheckpointFolder::Open(folder));
  if (!checkpoint->manifest().model().has_graph_sage()) {
    return WithHint(absl::InvalidArgumentError(
                        absl::StrCat(folder, ": is not the checkpoint of a graph model")),
                    "for a language model use `longhaul eval` or `longhaul sample`");
  }
  return checkpoint;
}

// A graph without classes may be predicted: it has no labels yet.
absl::Status CheckGraph(const GraphSageShape& shape, const GraphFolder& graph) {
  const GraphManifest& manifest = graph.manifest();
  const char* const hint =
      "predict on a graph that was imported as the job's was: `longhaul graph info` shows columns, "
      "classes and the schema digest";
  if (manifest.columns != shape.columns) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrFormat("%s: it has %d columns, the model %d",
                                                   graph.path(), manifest.columns, shape.columns)),
        hint);
  }
  if (!shape.links && manifest.classes != 0 && manifest.classes != shape.classes) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrFormat("%s: it has %d classes, the model %d",
                                                   graph.path(), manifest.classes, shape.classes)),
        hint);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int64_t>> NodesOf(const GraphFolder& graph, const std::string& split) {
  std::vector<int64_t> nodes;
  if (split == "all") {
    for (int64_t node = 0; node < graph.nodes(); ++node) nodes.push_back(node);
    return nodes;
  }
  const absl::Span<const int64_t> of = split == "train"   ? graph.train()
                                       : split == "valid" ? graph.valid()
                                                          : graph.test();
  if (of.empty()) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrCat(graph.path(), ": it has no ", split, " nodes")),
        "leave out --split to predict all nodes");
  }
  nodes.assign(of.begin(), of.end());
  return nodes;
}

absl::StatusOr<absl::Span<const NodePair>> PairsOf(const GraphFolder& graph,
                                                   const std::string& split) {
  const absl::Span<const NodePair> of = split == "train"   ? graph.train_pairs()
                                        : split == "valid" ? graph.valid_pairs()
                                                           : graph.test_pairs();
  if (!of.empty()) return of;
  return WithHint(
      absl::InvalidArgumentError(absl::StrCat(graph.path(), ": it has no ", split, " pairs")),
      "give pairs with --pairs, or leave out --split for embeddings alone");
}

// Of the nodes that have a label.
class Score {
 public:
  explicit Score(int64_t classes) : counts_(static_cast<size_t>(3 * classes)), classes_(classes) {}

  void Add(int32_t label, int64_t predicted) {
    if (label < 0) return;
    ++seen_;
    ++counts_[label];
    ++counts_[classes_ + predicted];
    if (label != predicted) return;
    ++right_;
    ++counts_[2 * classes_ + predicted];
  }
  void Put(nlohmann::ordered_json& result) const {
    result["labelled"] = seen_;
    if (seen_ == 0) {
      result["accuracy"] = result["macro_f1"] = nullptr;
      return;
    }
    result["accuracy"] = static_cast<double>(right_) / static_cast<double>(seen_);
    result["macro_f1"] = MacroF1(counts_);
  }

 private:
  std::vector<double> counts_;
  int64_t classes_, seen_ = 0, right_ = 0;
};

// What all predictions have in common.
struct Prediction {
  const PredictArguments& arguments;
  const CheckpointFolder& checkpoint;
  const GraphFolder& graph;
  const GraphModel& model;

  nlohmann::ordered_json Result(const ResultFolder& out, int64_t nodes) const {
    return {{"job", checkpoint.manifest().job_name()},
            {"step", checkpoint.manifest().step()},
            {"folder", out.path()},
            {"split", arguments.split},
            {"nodes", nodes}};
  }
};

absl::StatusOr<nlohmann::ordered_json> PredictClasses(const Prediction& of,
                                                      absl::Span<const int64_t> nodes) {
  const GraphSageShape& shape = of.model.shape();
  LH_ASSIGN_OR_RETURN(const auto out, ResultFolder::Create(of.arguments.out));
  const auto count = static_cast<int64_t>(nodes.size());
  LH_ASSIGN_OR_RETURN(ResultFile* const predictions, out->Add("predictions.csv"));
  LH_RETURN_IF_ERROR(predictions->Append(absl::string_view("id,class,probability\n")));
  LH_ASSIGN_OR_RETURN(ResultFile* const numbers,
                      out->AddArray("nodes.npy", NpyType::kInt64, {count}));
  LH_RETURN_IF_ERROR(numbers->Append(nodes));
  LH_ASSIGN_OR_RETURN(
      ResultFile* const probabilities,
      out->AddArray("probabilities.npy", NpyType::kFloat32, {count, shape.classes}));
  ResultFile* embeddings = nullptr;
  if (of.arguments.embeddings) {
    LH_ASSIGN_OR_RETURN(embeddings,
                        out->AddArray("embeddings.npy", NpyType::kFloat32, {count, shape.hidden}));
  }
  const std::vector<std::string>& class_names = of.graph.manifest().class_names;
  Score score(shape.classes);
  LH_RETURN_IF_ERROR(
      of.model.Predict(of.graph, nodes, [&](const GraphModel::Rows& rows) -> absl::Status {
        for (int64_t row = 0; row < rows.count; ++row) {
          const auto classes = rows.probabilities.subspan(row * shape.classes, shape.classes);
          const int64_t best = std::max_element(classes.begin(), classes.end()) - classes.begin();
          const int64_t node = nodes[rows.first + row];
          if (!of.graph.labels().empty()) score.Add(of.graph.labels()[node], best);
          LH_RETURN_IF_ERROR(predictions->Append(
              absl::StrFormat("%s,%s,%.9g\n", CsvCell(of.graph.IdOf(node)),
                              class_names.empty() ? absl::StrCat(best) : CsvCell(class_names[best]),
                              classes[best])));
        }
        LH_RETURN_IF_ERROR(probabilities->Append(rows.probabilities));
        return embeddings == nullptr ? absl::OkStatus() : embeddings->Append(rows.embeddings);
      }));
  LH_RETURN_IF_ERROR(out->Finish());
  nlohmann::ordered_json result = of.Result(*out, count);
  score.Put(result);
  result["files"] = out->names();
  return result;
}

// The scores of pairs, from the file of the nodes' rows.
absl::Status WriteScores(const Prediction& of, absl::Span<const NodePair> pairs,
                         const std::string& rows_path, ResultFolder& out) {
  LH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(rows_path));
  const auto* const rows =
      reinterpret_cast<const float*>(file.bytes().subspan(kNpyWrittenHeader).data());
  LH_ASSIGN_OR_RETURN(ResultFile* const predictions, out.Add("predictions.csv"));
  LH_RETURN_IF_ERROR(predictions->Append(absl::string_view("source,target,score,probability\n")));
  LH_ASSIGN_OR_RETURN(ResultFile* const scores, out.AddArray("scores.npy", NpyType::kFloat32,
                                                             {static_cast<int64_t>(pairs.size())}));
  const int64_t columns = of.model.shape().hidden;
  for (const auto& [source, target] : pairs) {
    const auto score = static_cast<float>(std::inner_product(
        rows + source * columns, rows + (source + 1) * columns, rows + target * columns, 0.0));
    LH_RETURN_IF_ERROR(predictions->Append(
        absl::StrFormat("%s,%s,%.9g,%.9g\n", CsvCell(of.graph.IdOf(source)),
                        CsvCell(of.graph.IdOf(target)), score, 1 / (1 + std::exp(-score)))));
    LH_RETURN_IF_ERROR(scores->Append(absl::MakeConstSpan(&score, 1)));
  }
  return file.Check();
}

absl::StatusOr<nlohmann::ordered_json> PredictLinks(const Prediction& of,
                                                    absl::Span<const NodePair> pairs) {
  LH_ASSIGN_OR_RETURN(const auto out, ResultFolder::Create(of.arguments.out));
  const int64_t count = of.graph.nodes();
  LH_ASSIGN_OR_RETURN(ResultFile* const ids, out->Add("ids.csv"));
  LH_RETURN_IF_ERROR(ids->Append(absl::string_view("id\n")));
  for (int64_t node = 0; node < count; ++node)
    LH_RETURN_IF_ERROR(ids->Append(absl::StrCat(CsvCell(of.graph.IdOf(node)), "\n")));
  const std::string name = "embeddings.npy";
  LH_ASSIGN_OR_RETURN(ResultFile* const embeddings,
                      out->AddArray(name, NpyType::kFloat32, {count, of.model.shape().hidden}));
  std::vector<int64_t> nodes(count);
  std::iota(nodes.begin(), nodes.end(), 0);
  LH_RETURN_IF_ERROR(of.model.Predict(of.graph, nodes, [&](const GraphModel::Rows& rows) {
    return embeddings->Append(rows.embeddings);
  }));
  if (!pairs.empty()) {
    LH_RETURN_IF_ERROR(embeddings->Finish());
    LH_RETURN_IF_ERROR(WriteScores(of, pairs, out->PathOf(name), *out));
  }
  LH_RETURN_IF_ERROR(out->Finish());
  nlohmann::ordered_json result = of.Result(*out, count);
  result["pairs"] = pairs.size();
  const GraphEdges edges = of.graph.edges();
  result["linked"] = std::count_if(pairs.begin(), pairs.end(), [&](const NodePair& pair) {
    return HasEdge(edges, pair.source, pair.target) || HasEdge(edges, pair.target, pair.source);
  });
  result["files"] = out->names();
  return result;
}

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Predict(const PredictArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFolder> checkpoint,
                      OpenCheckpoint(arguments.model));
  const GraphSageShape shape = ShapeOf(checkpoint->manifest().model().graph_sage());
  if (!shape.links && arguments.pairs.has_value()) {
    return WithHint(
        absl::InvalidArgumentError(absl::StrCat("--pairs: the model of ", arguments.model,
                                                " predicts the classes of nodes, not links")),
        "leave it out; the model of a job with model.graph_sage.links predicts pairs");
  }
  if (arguments.embeddings && shape.layers() == 1 && !shape.links) {
    return WithHint(absl::InvalidArgumentError(
                        "--embeddings: the model has one layer, which gives classes: there is no "
                        "embedding before it"),
                    "leave it out");
  }
  LH_ASSIGN_OR_RETURN(const GraphFolder graph, GraphFolder::Open(arguments.graph));
  LH_RETURN_IF_ERROR(CheckGraph(shape, graph));
  std::vector<int64_t> nodes;
  std::vector<NodePair> given;
  absl::Span<const NodePair> pairs;
  if (!shape.links) {
    LH_ASSIGN_OR_RETURN(nodes, NodesOf(graph, arguments.split));
  } else if (arguments.pairs.has_value()) {
    LH_ASSIGN_OR_RETURN(given, ReadIdPairs(*arguments.pairs, graph));
    pairs = given;
  } else if (arguments.split != "all") {
    LH_ASSIGN_OR_RETURN(pairs, PairsOf(graph, arguments.split));
  }
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<GraphModel> model,
                      GraphModel::Load(shape, *checkpoint, arguments.threads));
  const Prediction of{arguments, *checkpoint, graph, *model};
  return shape.links ? PredictLinks(of, pairs) : PredictClasses(of, nodes);
}

}  // namespace longhaul
