#include "coordinator/cli/export.h"

#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/checkpoint/checkpoint_folder.h"
#include "common/hf/hf_export.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/text.h"

namespace longhaul::cli {
namespace {

CliError ErrorOfExport(const absl::Status& status, std::string hint) {
  const bool usage = absl::IsNotFound(status) || absl::IsInvalidArgument(status) ||
                     absl::IsAlreadyExists(status) || absl::IsFailedPrecondition(status);
  return {.exit = usage ? ExitCode::kUsage : ExitCode::kFailed,
          .code = absl::StatusCodeToString(status.code()),
          .message = std::string(status.message()),
          .hint = std::move(hint)};
}

// The folder that the model of a checkpoint began with, if it is here.
std::string FolderOfOrigin(const CheckpointFolder& checkpoint) {
  const std::string& path = checkpoint.manifest().model().hf().path();
  std::error_code error;
  return !path.empty() && std::filesystem::is_directory(path, error) ? path : "";
}

Outcome ExportFolder(const Arguments& arguments, const std::string& folder,
                     const Environment& environment) {
  const absl::StatusOr<std::unique_ptr<CheckpointFolder>> checkpoint =
      CheckpointFolder::Open(folder);
  if (!checkpoint.ok()) return ErrorOfExport(checkpoint.status(), "");
  HfExportOptions options{
      .config = {.shape = (*checkpoint)->shape()},
      .type = arguments.dtype == "fp32" ? ElementType::kF32 : ElementType::kBf16,
      .like = arguments.tokenizer.empty() ? FolderOfOrigin(**checkpoint) : arguments.tokenizer};
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  const absl::StatusOr<HfExport> done =
      ExportHf(*fs, (*checkpoint)->layout(), **checkpoint, options, arguments.out);
  if (!done.ok()) {
    return ErrorOfExport(done.status(), absl::IsAlreadyExists(done.status())
                                            ? "give --out a folder that is not there yet"
                                            : "");
  }
  if (done->carried.empty())
    environment.err << "note: no tokenizer is carried along (--tokenizer DIR)" << std::endl;
  const v1::CheckpointManifest& manifest = (*checkpoint)->manifest();
  return {Json{{"job", manifest.job_name()},
               {"step", manifest.step()},
               {"folder", arguments.out},
               {"dtype", arguments.dtype},
               {"parameters", (*checkpoint)->layout().elements()},
               {"bytes", done->bytes},
               {"files", done->files},
               {"carried", done->carried}},
          absl::StrFormat("%s: %s at step %d, %d parameters in %s, %d bytes in %d file%s%s\n",
                          Printable(arguments.out), Printable(manifest.job_name()), manifest.step(),
                          (*checkpoint)->layout().elements(), arguments.dtype, done->bytes,
                          done->files, done->files == 1 ? "" : "s",
                          done->carried.empty()
                              ? ""
                              : absl::StrCat(", with ", absl::StrJoin(done->carried, ", ")))};
}

}  // namespace

bool IsLocalExport(const Arguments& arguments) {
  std::error_code error;
  return std::filesystem::is_directory(arguments.job, error);
}

Outcome Export(const Arguments& arguments, Client* client, const Environment& environment) {
  if (client == nullptr) return ExportFolder(arguments, arguments.job, environment);
  const auto checkpoints = client->ListCheckpoints(arguments.job);
  if (!checkpoints.ok()) return ErrorOfCall(checkpoints.status(), client->address());
  if (checkpoints->checkpoints().empty()) {
    return ErrorOfExport(
        absl::FailedPreconditionError(
            absl::StrCat("job ", arguments.job, " has no checkpoint yet")),
        "checkpoint.every_cycles makes them while a job runs; one is made at its end");
  }
  const std::string& folder = checkpoints->checkpoints().rbegin()->path();
  if (!CheckpointFolder::IsOne(folder)) {
    return ErrorOfExport(
        absl::NotFoundError(absl::StrCat(folder, " is not on this machine")),
        "export on the coordinator's machine, or bring the folder here and name it instead of JOB");
  }
  return ExportFolder(arguments, folder, environment);
}

}  // namespace longhaul::cli
