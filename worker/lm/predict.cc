#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "common/base/macro_f1.h"
#include "common/base/status_hint.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/config/graph_sage_spec.h"
#include "common/graph/graph_folder.h"
#include "common/graph/npy.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "worker/lm/commands.h"
#include "worker/lm/graph_model.h"

namespace longhaul {
namespace {

constexpr size_t kWriteBytes = 1 << 20;

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
  if (checkpoint->manifest().model().graph_sage().classes() == 0) {
    return WithHint(absl::InvalidArgumentError(absl::StrCat(
                        folder, ": its model predicts links, not the classes of nodes")),
                    "predictions are built for node classification");
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
  if (manifest.classes != 0 && manifest.classes != shape.classes) {
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

// As RFC 4180.
std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  return absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// A file of the result.
class ResultFile {
 public:
  static absl::StatusOr<ResultFile> Create(FileSystem* fs, const std::string& path) {
    ResultFile result;
    LH_ASSIGN_OR_RETURN(result.file_, fs->Create(path));
    return result;
  }
  absl::Status Append(absl::string_view bytes) {
    waiting_.append(bytes.data(), bytes.size());
    return waiting_.size() < kWriteBytes ? absl::OkStatus() : Flush();
  }
  template <typename T>
  absl::Status Append(absl::Span<const T> values) {
    return Append({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
  }
  absl::Status Finish() {
    LH_RETURN_IF_ERROR(Flush());
    return file_->SyncData();
  }

 private:
  absl::Status Flush() {
    LH_RETURN_IF_ERROR(file_->Append(waiting_));
    waiting_.clear();
    return absl::OkStatus();
  }

  std::unique_ptr<File> file_;
  std::string waiting_;
};

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

}  // namespace

absl::StatusOr<nlohmann::ordered_json> Predict(const PredictArguments& arguments) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<CheckpointFolder> checkpoint,
                      OpenCheckpoint(arguments.model));
  const GraphSageShape shape = ShapeOf(checkpoint->manifest().model().graph_sage());
  if (arguments.embeddings && shape.layers() == 1) {
    return WithHint(absl::InvalidArgumentError(
                        "--embeddings: the model has one layer, which gives classes: there is no "
                        "embedding before it"),
                    "leave it out");
  }
  LH_ASSIGN_OR_RETURN(const GraphFolder graph, GraphFolder::Open(arguments.graph));
  LH_RETURN_IF_ERROR(CheckGraph(shape, graph));
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> nodes, NodesOf(graph, arguments.split));
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<GraphModel> model,
                      GraphModel::Load(shape, *checkpoint, arguments.threads));

  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const std::string out = WithoutTrailingSlashes(arguments.out);
  const std::string temporary = out + ".tmp";
  std::error_code error;
  if (std::filesystem::exists(out, error)) {
    return WithHint(absl::AlreadyExistsError(absl::StrCat(out, " exists")),
                    "give another folder, or remove it first");
  }
  LH_RETURN_IF_ERROR(RemoveFolder(*fs, temporary));
  LH_RETURN_IF_ERROR(CreateDirs(*fs, temporary));
  absl::Cleanup remove = [&] { RemoveFolder(*fs, temporary).IgnoreError(); };

  const auto count = static_cast<int64_t>(nodes.size());
  std::vector<std::string> names = {"predictions.csv", "nodes.npy", "probabilities.npy"};
  if (arguments.embeddings) names.push_back("embeddings.npy");
  std::vector<ResultFile> files;
  for (const std::string& name : names) {
    LH_ASSIGN_OR_RETURN(files.emplace_back(),
                        ResultFile::Create(fs.get(), JoinPath(temporary, name)));
  }
  LH_RETURN_IF_ERROR(files[0].Append(absl::string_view("id,class,probability\n")));
  LH_RETURN_IF_ERROR(files[1].Append(WriteNpyHeader(NpyType::kInt64, {count})));
  LH_RETURN_IF_ERROR(files[1].Append(absl::MakeConstSpan(nodes)));
  LH_RETURN_IF_ERROR(files[2].Append(WriteNpyHeader(NpyType::kFloat32, {count, shape.classes})));
  if (arguments.embeddings) {
    LH_RETURN_IF_ERROR(files[3].Append(WriteNpyHeader(NpyType::kFloat32, {count, shape.hidden})));
  }
  const std::vector<std::string>& class_names = graph.manifest().class_names;
  Score score(shape.classes);
  LH_RETURN_IF_ERROR(
      model->Predict(graph, nodes, [&](const GraphModel::Rows& rows) -> absl::Status {
        for (int64_t row = 0; row < rows.count; ++row) {
          const auto of = rows.probabilities.subspan(row * shape.classes, shape.classes);
          const int64_t best = std::max_element(of.begin(), of.end()) - of.begin();
          const int64_t node = nodes[rows.first + row];
          if (!graph.labels().empty()) score.Add(graph.labels()[node], best);
          LH_RETURN_IF_ERROR(files[0].Append(absl::StrFormat(
              "%s,%s,%.9g\n", CsvCell(graph.IdOf(node)),
              class_names.empty() ? absl::StrCat(best) : CsvCell(class_names[best]), of[best])));
        }
        LH_RETURN_IF_ERROR(files[2].Append(rows.probabilities));
        return arguments.embeddings ? files[3].Append(rows.embeddings) : absl::OkStatus();
      }));
  for (ResultFile& file : files) LH_RETURN_IF_ERROR(file.Finish());
  LH_RETURN_IF_ERROR(fs->SyncDir(temporary));
  LH_RETURN_IF_ERROR(fs->Rename(temporary, out));
  std::move(remove).Cancel();

  nlohmann::ordered_json result{{"job", checkpoint->manifest().job_name()},
                                {"step", checkpoint->manifest().step()},
                                {"folder", out},
                                {"split", arguments.split},
                                {"nodes", count}};
  score.Put(result);
  result["files"] = names;
  return result;
}

}  // namespace longhaul
