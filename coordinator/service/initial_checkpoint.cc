#include "coordinator/service/initial_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/reader.h"
#include "common/config/checkpoint_name.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/live_job.h"
#include "coordinator/store/checkpoint.h"

namespace longhaul::coordinator {
namespace {

constexpr size_t kModelTextMax = 400;

absl::Status Fault(absl::string_view field, absl::string_view what, absl::string_view hint) {
  return BadRequestError({{std::string(field), absl::StrCat(what, "; ", hint)}});
}

// The folder of JOB[@STEP]; `init` gets its exact name.
absl::StatusOr<std::string> FindCheckpoint(const ServiceContext& service, v1::InitSpec& init) {
  const CheckpointName name = *ParseCheckpointName(init.checkpoint());
  const absl::StatusOr<JobRecord> record = service.performer->meta().GetJob(name.job);
  if (absl::IsNotFound(record.status())) {
    return Fault("init.checkpoint", absl::StrCat("no job has the name or id \"", name.job, "\""),
                 "`longhaul list` shows the jobs");
  }
  LH_RETURN_IF_ERROR(record.status());
  const Fragments& fragments = service.performer->fragments();
  const std::string job_dir = fragments.JobDir(record->id);
  const std::string hint = absl::StrCat("`longhaul checkpoints ", name.job, "` shows them");
  const auto steps = CheckpointSteps(*fragments.parts().fs, job_dir);
  if (!steps.ok() || steps->empty())
    return Fault("init.checkpoint", absl::StrCat("job ", name.job, " has no checkpoints"), hint);
  const int64_t step = name.step.value_or(steps->back());
  if (std::find(steps->begin(), steps->end(), step) == steps->end()) {
    return Fault("init.checkpoint",
                 absl::StrCat("job ", name.job, " has no checkpoint of step ", step), hint);
  }
  init.set_checkpoint(absl::StrCat(record->id, "@", step));
  return CheckpointPath(job_dir, step);
}

absl::StatusOr<std::string> FindFolder(const ServiceContext& service, v1::InitSpec& init) {
  if (service.import_dir.empty()) {
    return Fault("init.folder", "this coordinator takes no folders",
                 "start it with --import-dir DIR and put the checkpoint's folder there, or begin "
                 "with a job's checkpoint (init.checkpoint)");
  }
  std::error_code error;
  const std::filesystem::path allowed = std::filesystem::canonical(service.import_dir, error);
  if (error) return Fault("init.folder", "--import-dir is not there", "make the folder");
  const std::filesystem::path folder =
      std::filesystem::canonical(allowed / std::string(init.folder()), error);
  // Links were followed: what is outside is not said to be there or not.
  const auto [end, unused] =
      std::mismatch(allowed.begin(), allowed.end(), folder.begin(), folder.end());
  if (error || end != allowed.end() || folder == allowed) {
    return Fault(
        "init.folder",
        absl::StrCat("found '", init.folder(),
                     "', which is no folder in the "
                     "coordinator's --import-dir"),
        "copy the checkpoint's folder there; --set init.folder=NAME names it by its place in it");
  }
  init.set_folder(folder.string());
  return folder.string();
}

}  // namespace

absl::Status ResolveInitial(const ServiceContext& service, ResolvedJob& resolved) {
  v1::InitSpec& init = *resolved.spec.mutable_init();
  if (!init.has_checkpoint() && !init.has_folder()) {
    resolved.spec.clear_init();
    return absl::OkStatus();
  }
  const char* const field = init.has_folder() ? "init.folder" : "init.checkpoint";
  LH_ASSIGN_OR_RETURN(const std::string folder, init.has_folder() ? FindFolder(service, init)
                                                                  : FindCheckpoint(service, init));
  FileSystem& fs = *service.performer->fragments().parts().fs;
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, folder);
  if (!manifest.ok()) {
    return Fault(field, manifest.status().message(),
                 "a checkpoint's folder has a manifest.json and the files that it names");
  }
  const std::string differences = TensorDifferences(*manifest, TensorsOf(resolved));
  if (differences.empty()) return absl::OkStatus();
  std::string hint = "a job begins with a checkpoint of the same model";
  if (manifest->has_model()) {
    absl::StrAppend(&hint, "; the checkpoint's is: ",
                    manifest->model().ShortDebugString().substr(0, kModelTextMax));
  }
  return Fault(field, absl::StrCat("the checkpoint does not fit the model: ", differences), hint);
}

}  // namespace longhaul::coordinator
