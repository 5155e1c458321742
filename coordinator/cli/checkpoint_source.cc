#include "coordinator/cli/checkpoint_source.h"

#include <filesystem>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/reader.h"
#include "common/config/checkpoint_name.h"
#include "common/hf/hf_model.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "coordinator/cli/download.h"
#include "coordinator/cli/results.h"
#include "coordinator/cli/text.h"
#include "coordinator/cli/views.h"

namespace longhaul::cli {
namespace {

// Makes a running job write what it has committed. Returns the step. Empty: the job has ended.
absl::StatusOr<std::optional<int64_t>> WriteLastCommit(const std::string& name, Client& client,
                                                       const Environment& environment,
                                                       absl::Time deadline) {
  const absl::StatusOr<v1::Job> job = client.GetJob(name);
  if (!job.ok()) return job.status();
  if (Rests(*job)) return std::nullopt;
  const auto promised = client.CreateCheckpoint(name);
  if (!promised.ok()) return promised.status();
  environment.err << "waiting for the checkpoint of step " << promised->step() << std::endl;
  const absl::Status there = AwaitCheckpoint(name, promised->step(), deadline, client, environment);
  if (!there.ok()) return there;
  return promised->step();
}

// Whether the folder of that name on this machine is this checkpoint. Does not verify the files:
// the code that opens the folder does.
bool IsHere(FileSystem& fs, const v1::CheckpointManifest& wanted) {
  const absl::StatusOr<v1::CheckpointManifest> here = ReadManifest(fs, wanted.path());
  return here.ok() && here->job_id() == wanted.job_id() && here->step() == wanted.step();
}

const v1::CheckpointManifest* Find(const v1::ListCheckpointsResponse& all,
                                   std::optional<int64_t> step) {
  const v1::CheckpointManifest* found = nullptr;
  for (const v1::CheckpointManifest& checkpoint : all.checkpoints()) {
    if (!step.has_value() || checkpoint.step() == *step) found = &checkpoint;
  }
  return found;
}

}  // namespace

bool MeansFolder(const std::string& word) {
  std::error_code error;
  if (!std::filesystem::is_directory(word, error)) return false;
  if (!ParseCheckpointName(word).has_value() || IsHfFolder(word)) return true;
  const absl::Status manifest = ReadManifest(*MakePosixFileSystem(), word).status();
  return !absl::IsNotFound(manifest) && !absl::IsInvalidArgument(manifest);
}

std::variant<LocalCheckpoint, CliError> BringCheckpoint(const Arguments& arguments, Client& client,
                                                        const Environment& environment) {
  const std::optional<CheckpointName> name = ParseCheckpointName(arguments.job);
  if (!name.has_value()) {
    return UsageError(
        absl::StrCat("'", arguments.job, "' is neither a local folder, nor JOB or JOB@STEP"),
        "for example quickstart@900");
  }
  const absl::Time deadline = DeadlineOf(arguments, environment);
  std::optional<int64_t> step = name->step;
  auto all = client.ListCheckpoints(name->job);
  if (!all.ok()) return ErrorOfCall(all.status(), client.address());
  if (!step.has_value() && (arguments.last_commit || all->checkpoints().empty())) {
    const auto written = WriteLastCommit(name->job, client, environment, deadline);
    if (!written.ok()) return ErrorOfCall(written.status(), client.address());
    step = *written;
    all = client.ListCheckpoints(name->job);
    if (!all.ok()) return ErrorOfCall(all.status(), client.address());
  }
  const v1::CheckpointManifest* const found = Find(*all, step);
  if (found == nullptr) {
    CliError error = UsageError(
        step.has_value() ? absl::StrCat("job ", name->job, " has no checkpoint of step ", *step)
                         : absl::StrCat("job ", name->job, " has no checkpoint"),
        absl::StrCat("`longhaul checkpoints ", name->job, "` shows them"));
    error.code = "NOT_FOUND";
    return error;
  }
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  if (IsHere(*fs, *found)) return LocalCheckpoint{.folder = found->path()};
  std::string copy = absl::StrCat(WithoutTrailingSlashes(arguments.out), ".checkpoint");
  if (!arguments.cache.empty()) {
    copy =
        JoinPath(arguments.cache, absl::StrFormat("%s-step-%08d", found->job_id(), found->step()));
  }
  const absl::StatusOr<Downloaded> done =
      Download({.job = name->job, .step = found->step()}, {.out = copy, .deadline = deadline},
               client, *fs, environment);
  if (!done.ok()) return ErrorOfDownload(done.status(), client.address());
  return LocalCheckpoint{.folder = copy, .copied = arguments.cache.empty()};
}

}  // namespace longhaul::cli
