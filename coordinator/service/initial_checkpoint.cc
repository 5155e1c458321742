#include "coordinator/service/initial_checkpoint.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/initial_folder.h"
#include "common/config/checkpoint_name.h"
#include "common/config/data_sources.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/submission.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {
namespace {

constexpr char kFolderField[] = "init.folder";

absl::Status Fault(absl::string_view field, absl::string_view what, absl::string_view hint) {
  return BadRequestError({{std::string(field), absl::StrCat(what, "; ", hint)}});
}

absl::Status ErrorOf(const std::vector<SpecViolation>& violations) {
  return violations.empty() ? absl::OkStatus() : BadRequestError(ToFieldViolations(violations));
}

// The folder of JOB[@STEP]; `init` gets its exact name.
absl::StatusOr<std::string> FindCheckpointOf(const ServiceContext& service, v1::InitSpec& init) {
  const CheckpointName name = *ParseCheckpointName(init.checkpoint());
  const absl::StatusOr<JobRecord> record = service.control->meta().GetJob(name.job);
  if (absl::IsNotFound(record.status())) {
    return Fault("init.checkpoint", absl::StrCat("no job has the name or id \"", name.job, "\""),
                 "`longhaul list` shows the jobs");
  }
  LH_RETURN_IF_ERROR(record.status());
  const Fragments& fragments = service.control->fragments();
  const std::string job_dir = fragments.JobDir(record->id);
  const absl::StatusOr<int64_t> step = FindCheckpoint(*fragments.parts().fs, job_dir, name.step);
  if (absl::IsNotFound(step.status())) {
    return Fault("init.checkpoint",
                 absl::StrCat("job ", name.job, " has ", step.status().message()),
                 absl::StrCat("`longhaul checkpoints ", name.job, "` shows them"));
  }
  LH_RETURN_IF_ERROR(step.status());
  init.set_checkpoint(absl::StrCat(record->id, "@", *step));
  return CheckpointPath(job_dir, *step);
}

// The exact name of what the job of this name begins with, if the same words named it: the newest
// checkpoint may be another one by now, and the one of then be gone.
std::optional<std::string> BeganWith(const ServiceContext& service, const v1::JobSpec& spec) {
  MetaStore& meta = service.control->meta();
  const absl::StatusOr<JobRecord> job = meta.GetJob(spec.name());
  v1::JobSpec stored;
  if (!job.ok() || !stored.ParseFromString(job->spec)) return std::nullopt;
  const auto then = ParseCheckpointName(stored.init().checkpoint());
  const auto now = ParseCheckpointName(spec.init().checkpoint());
  if (!then.has_value() || !now.has_value()) return std::nullopt;
  if (now->step.has_value() && now->step != then->step) return std::nullopt;
  const absl::StatusOr<JobRecord> source = meta.GetJob(now->job);
  const absl::StatusOr<std::string> id = source.ok() ? source->id : meta.FindDeleted(now->job);
  if (!id.ok() || *id != then->job) return std::nullopt;
  return stored.init().checkpoint();
}

absl::StatusOr<std::string> FindUpload(const ServiceContext& service, const std::string& upload) {
  if (std::optional<std::string> folder = service.uploads->Find(upload)) return *std::move(folder);
  return WithErrorInfo(
      absl::NotFoundError(absl::StrCat("init.upload: there is no upload ", upload)),
      {"UPLOAD_UNKNOWN",
       {{"field", "init.upload"},
        {"hint", "`longhaul submit --from DIR` uploads the folder and submits the job"}}});
}

// What a job wants to begin with: the field that says it, and the folder.
struct Beginning {
  std::string field, folder;
};

absl::StatusOr<Beginning> FindBeginning(const ServiceContext& service, v1::InitSpec& init) {
  Beginning found;
  if (init.has_upload()) {
    found.field = "init.upload";
    LH_ASSIGN_OR_RETURN(found.folder, FindUpload(service, init.upload()));
  } else if (init.has_folder()) {
    found.field = kFolderField;
    LH_ASSIGN_OR_RETURN(found.folder, FindImport(service, init));
  } else {
    found.field = "init.checkpoint";
    LH_ASSIGN_OR_RETURN(found.folder, FindCheckpointOf(service, init));
  }
  return found;
}

// What init.folder names if its path has no links, also if the folder is not there any more.
std::string PlainImport(const ServiceContext& service, const std::string& folder) {
  std::error_code error;
  const std::filesystem::path allowed = std::filesystem::canonical(service.import_dir, error);
  std::string path = error ? folder : (allowed / folder).lexically_normal().string();
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// The spec of the job of this name, if the same words said what it begins with. Then none begins
// now, and the store decides whether it is the same job. That job may have begun long ago, with a
// folder or an upload that is gone by now.
std::optional<v1::JobSpec> SubmittedBefore(const ServiceContext& service, const v1::JobSpec& spec) {
  const absl::StatusOr<JobRecord> job = service.control->meta().GetJob(spec.name());
  v1::JobSpec stored;
  if (!job.ok() || job->name != spec.name() || !stored.ParseFromString(job->spec))
    return std::nullopt;
  const v1::InitSpec &then = stored.init(), &now = spec.init();
  if (now.has_upload() && then.upload() == now.upload()) return stored;
  if (!now.has_folder() || !then.has_folder()) return std::nullopt;
  if (PlainImport(service, now.folder()) == then.folder()) return stored;
  v1::InitSpec found = now;
  if (!FindImport(service, found).ok() || found.folder() != then.folder()) return std::nullopt;
  return stored;
}

}  // namespace

absl::StatusOr<std::string> FindImport(const ServiceContext& service, v1::InitSpec& init) {
  if (service.import_dir.empty()) {
    return Fault(
        kFolderField, "this coordinator has no --import-dir",
        "run `longhaul submit --from DIR` on the machine that has the folder to upload it");
  }
  std::error_code error;
  const std::filesystem::path allowed = std::filesystem::canonical(service.import_dir, error);
  if (error) {
    return Fault(
        kFolderField,
        absl::StrCat("the coordinator's --import-dir ", service.import_dir, " does not exist"),
        "create the folder on the coordinator's machine");
  }
  const std::filesystem::path folder =
      std::filesystem::canonical(allowed / std::string(init.folder()), error);
  // The path has no links any more. The answer does not tell whether a folder outside exists.
  const auto [end, unused] =
      std::mismatch(allowed.begin(), allowed.end(), folder.begin(), folder.end());
  if (error || end != allowed.end() || folder == allowed) {
    return Fault(
        kFolderField,
        absl::StrCat("found '", init.folder(), "', which is not a folder in ", allowed.string(),
                     " of the coordinator's machine (its --import-dir)"),
        "run `longhaul submit --from DIR` on the machine that has the folder to upload it");
  }
  init.set_folder(folder.string());
  return folder.string();
}

namespace {

// As TakeTokenizerOf, for a job that was submitted before.
void TakeTokenizerAgain(const v1::JobSpec& before, v1::JobSpec& spec) {
  if (!HasKeptTokenizer(before) || !spec.has_data()) return;
  NameModelTokenizer(*spec.mutable_data());
  spec.mutable_data()->set_model_tokenizer(before.data().model_tokenizer());
}

// The tokenizer that the job of the checkpoint keeps. ResolveInitial says what is wrong with it.
absl::Status FillTokenizerOfCheckpoint(const ServiceContext& service, v1::JobSpec& spec) {
  if (BeganWith(service, spec).has_value()) {
    const absl::StatusOr<JobRecord> job = service.control->meta().GetJob(spec.name());
    v1::JobSpec before;
    if (job.ok() && before.ParseFromString(job->spec)) TakeTokenizerAgain(before, spec);
    return absl::OkStatus();
  }
  if (!ParseCheckpointName(spec.init().checkpoint()).has_value()) return absl::OkStatus();
  v1::InitSpec init = spec.init();
  const absl::StatusOr<std::string> folder = FindCheckpointOf(service, init);
  return folder.ok() ? ErrorOf(TakeTokenizerOf(*folder, spec)) : absl::OkStatus();
}

}  // namespace

absl::Status FillModel(const ServiceContext& service, v1::JobSpec& spec) {
  if (spec.init().has_checkpoint()) return FillTokenizerOfCheckpoint(service, spec);
  v1::InitSpec init = spec.init();
  const bool lacks_upload = init.has_upload() && !service.uploads->Find(init.upload());
  if (!init.has_folder() && !init.has_upload()) return absl::OkStatus();
  if (std::optional<v1::JobSpec> before = SubmittedBefore(service, spec); before.has_value()) {
    if (before->model().has_transformer() &&
        (spec.model().kind_case() == v1::ModelSpec::KIND_NOT_SET ||
         spec.model().has_transformer())) {
      // As TakeShapeOf.
      v1::TransformerSpec shape = before->model().transformer();
      shape.MergeFrom(spec.model().transformer());
      *spec.mutable_model()->mutable_transformer() = std::move(shape);
    }
    *spec.mutable_init() = before->init();
    TakeTokenizerAgain(*before, spec);
    return absl::OkStatus();
  }
  if (lacks_upload) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(const Beginning beginning, FindBeginning(service, init));
  std::vector<SpecViolation> violations = TakeShapeOf(beginning.folder, beginning.field, spec);
  if (violations.empty()) violations = TakeTokenizerOf(beginning.folder, spec);
  return ErrorOf(violations);
}

absl::Status ResolveInitial(const ServiceContext& service, ResolvedJob& resolved) {
  v1::InitSpec& init = *resolved.spec.mutable_init();
  if (init.source_case() == v1::InitSpec::SOURCE_NOT_SET) {
    resolved.spec.clear_init();
    return absl::OkStatus();
  }
  if (std::optional<std::string> name = BeganWith(service, resolved.spec); name.has_value()) {
    init.set_checkpoint(*std::move(name));
    return absl::OkStatus();
  }
  if (SubmittedBefore(service, resolved.spec).has_value()) return absl::OkStatus();
  const absl::StatusOr<Beginning> beginning = FindBeginning(service, init);
  LH_RETURN_IF_ERROR(beginning.status());
  FileSystem& fs = *service.control->fragments().parts().fs;
  LH_RETURN_IF_ERROR(
      ErrorOf(CheckInitialFolder(fs, beginning->folder, beginning->field, resolved)));
  std::string warning = WarningOfBeginning(fs, beginning->folder, beginning->field, resolved.spec);
  if (!warning.empty()) resolved.beginning_warnings.push_back(std::move(warning));
  return absl::OkStatus();
}

}  // namespace longhaul::coordinator
