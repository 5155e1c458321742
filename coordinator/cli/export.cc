#include "coordinator/cli/export.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/counted.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/config/graph_sage_spec.h"
#include "common/hf/hf_export.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/checkpoint_source.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

CliError ErrorOfExport(const absl::Status& status) {
  return ErrorOf(
      status, ExitOfFiles(status),
      absl::IsAlreadyExists(status) ? "give --out a folder that does not exist yet" : "");
}

// The tokenizer that the job of a checkpoint kept, or the folder with which its model began, if it
// is here.
std::string FolderOfOrigin(const CheckpointFolder& checkpoint, const std::string& folder) {
  std::string kept = CheckpointFolder::TokenizerOf(folder);
  if (!kept.empty()) return kept;
  const std::string& path = checkpoint.manifest().model().hf().path();
  std::error_code error;
  return !path.empty() && std::filesystem::is_directory(path, error) ? path : "";
}

// What a graph model's tensors do not tell. The fields are those of GraphSageSpec.
std::string ConfigOf(const v1::GraphSageSpec& model) {
  const GraphSageShape shape = ShapeOf(model);
  const char* const aggregator = shape.aggregator == GraphAggregator::kSum   ? "sum"
                                 : shape.aggregator == GraphAggregator::kMax ? "max"
                                                                             : "mean";
  Json json{{"model_type", "graph_sage"},   {"layers", shape.layers()},
            {"columns", shape.columns},     {"hidden", shape.hidden},
            {"classes", shape.classes},     {"fanout", shape.fanout},
            {"aggregator", aggregator},     {"dropout", shape.dropout},
            {"normalize", shape.normalize}, {"norm", shape.layer_norm ? "layer" : "none"}};
  json["task"] = shape.links ? "links" : "nodes";
  if (shape.links) json.erase("classes");
  return json.dump(2) + "\n";
}

Outcome ExportFolder(const Arguments& arguments, const std::string& folder,
                     const Environment& environment) {
  const absl::StatusOr<std::unique_ptr<CheckpointFolder>> checkpoint =
      CheckpointFolder::Open(folder);
  if (!checkpoint.ok()) return ErrorOfExport(checkpoint.status());
  const bool graph = (*checkpoint)->manifest().model().has_graph_sage();
  if (graph && !arguments.tokenizer.empty()) {
    return ErrorOf(absl::InvalidArgumentError("--tokenizer: a graph model has no tokenizer"),
                   ExitCode::kUsage, "omit it");
  }
  HfExportOptions options{
      .config = {.shape = (*checkpoint)->shape(),
                 .separate_documents = (*checkpoint)->manifest().separate_documents()},
      .type = arguments.dtype == "fp32" ? ElementType::kF32 : ElementType::kBf16,
      .like =
          arguments.tokenizer.empty() ? FolderOfOrigin(**checkpoint, folder) : arguments.tokenizer};
  if (graph) options.config_text = ConfigOf((*checkpoint)->manifest().model().graph_sage());
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const absl::StatusOr<HfExport> done =
      ExportHf(*fs, (*checkpoint)->layout(), **checkpoint, options, arguments.out);
  if (!done.ok()) return ErrorOfExport(done.status());
  if (done->carried.empty() && !graph)
    environment.err << "note: no tokenizer is included (--tokenizer DIR)" << std::endl;
  const v1::CheckpointManifest& manifest = (*checkpoint)->manifest();
  return {Json{{"job", manifest.job_name()},
               {"step", manifest.step()},
               {"folder", arguments.out},
               {"dtype", arguments.dtype},
               {"parameters", (*checkpoint)->layout().elements()},
               {"bytes", done->bytes},
               {"files", done->files},
               {"carried", done->carried}},
          absl::StrFormat("%s: %s at step %d, %d parameters in %s, %d bytes in %s%s\n",
                          Printable(arguments.out), Printable(manifest.job_name()), manifest.step(),
                          (*checkpoint)->layout().elements(), arguments.dtype, done->bytes,
                          Counted(done->files, "file"),
                          done->carried.empty()
                              ? ""
                              : absl::StrCat(", with ", absl::StrJoin(done->carried, ", ")))};
}

}  // namespace

bool IsLocalExport(const Arguments& arguments) { return MeansFolder(arguments.job); }

Outcome Export(const Arguments& arguments, Client* client, const Environment& environment) {
  if (client == nullptr) return ExportFolder(arguments, arguments.job, environment);
  std::error_code error;
  // Before anything is brought here.
  if (std::filesystem::exists(arguments.out, error) &&
      !std::filesystem::is_empty(arguments.out, error)) {
    return ErrorOfExport(
        absl::AlreadyExistsError(absl::StrCat(arguments.out, " exists and is not empty")));
  }
  auto brought = BringCheckpoint(arguments, *client, environment);
  if (auto* const failed = std::get_if<CliError>(&brought)) return std::move(*failed);
  const LocalCheckpoint& checkpoint = std::get<LocalCheckpoint>(brought);
  Outcome outcome = ExportFolder(arguments, checkpoint.folder, environment);
  if (checkpoint.copied && !outcome.error.has_value()) {
    std::filesystem::remove_all(checkpoint.folder, error);
  } else if (checkpoint.copied) {
    environment.err << "note: the checkpoint is kept in " << checkpoint.folder
                    << "; run the same command again to use it" << std::endl;
  }
  return outcome;
}

}  // namespace longhaul::cli
