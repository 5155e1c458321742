// What users call.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/folder_files.h"
#include "common/checkpoint/initial_folder.h"
#include "common/config/checkpoint_name.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/io/sha256.h"
#include "coordinator/service/initial_checkpoint.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/data_folder.h"
#include "tests/simulation/coordinator_life.h"
#include "tests/simulation/coordinator_node.h"

namespace longhaul::simulation {
namespace {

constexpr int64_t kFolderFileMax = 1 << 20;

}  // namespace

std::optional<absl::Status> CoordinatorNode::Submit(const v1::JobSpec& spec,
                                                    const std::string& id) {
  submitting_ = id;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  LH_CHECK(resolved.ok(), "the simulated jobs can be");
  const v1::OuterOptimizerSpec& outer = resolved->spec.sync().outer();
  rules_[id] = {static_cast<float>(outer.lr()), static_cast<float>(outer.momentum())};
  absl::Status submitted;
  const bool alive = Enter([&] {
    submitted = ResolveBeginning(*resolved);
    if (!submitted.ok()) return;
    ObserveBeginning(*resolved, id);
    submitted = performer().Submit(*std::move(resolved), id).status();
  });
  if (!alive) return std::nullopt;
  return submitted;
}

absl::Status CoordinatorNode::ResolveBeginning(ResolvedJob& resolved) {
  v1::InitSpec& init = *resolved.spec.mutable_init();
  coordinator::ServiceContext service{.control = &performer()};
  if (init.has_folder()) {
    // The service finds it with the file system of the machine (FindImport).
    init.set_folder(MakeFolder(resolved));
    LH_CHECK(CheckInitialFolder(*disk_, init.folder(), "init.folder", resolved).empty(),
             "it has the parameters of the job's model");
    return absl::OkStatus();
  }
  if (init.has_upload()) {
    LH_RETURN_IF_ERROR(Upload(MakeFolder(resolved), init));
    service.uploads = life_->uploads.get();
  }
  return coordinator::ResolveInitial(service, resolved);
}

std::string CoordinatorNode::MakeFolder(const ResolvedJob& resolved) {
  const std::string job = JoinPath(kImportDir, resolved.spec.name());
  std::string folder = CheckpointPath(job, 0);
  if (disk_->List(folder).ok()) return folder;
  LH_CHECK(CreateDirs(*disk_, ParentOf(folder)).ok(), "the users' disk takes folders");
  v1::CheckpointManifest manifest;
  manifest.set_job_name(resolved.spec.name());
  for (v1::CheckpointTensor& tensor : TensorsOf(resolved))
    *manifest.add_tensors() = std::move(tensor);
  auto writer = CheckpointWriter::Begin(disk_.get(), job, std::move(manifest));
  LH_CHECK(writer.ok(), "the users' disk takes folders");
  for (size_t f = 0; f < resolved.schedule.size(); ++f) {
    std::vector<float> values;
    for (float word : InitialWords(resolved.spec.name(), static_cast<int>(f)))
      values.insert(values.end(), kBlockElements, word);
    const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                  values.size() * sizeof(float));
    LH_CHECK(writer->AddFragment(1, DigestOf(bytes), values).ok(), "the users' disk has room");
  }
  LH_CHECK(writer->Finish(kKeepAll).ok(), "the users' disk has room");
  return folder;
}

absl::Status CoordinatorNode::Upload(const std::string& folder, v1::InitSpec& init) {
  Uploads* const uploads = FindUploads();
  if (uploads == nullptr) return absl::ResourceExhaustedError("no room for uploads");
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, FilesNeededOf(*disk_, folder));
  std::vector<FolderFile> files;
  std::vector<std::string> contents;
  for (const std::string& name : names) {
    contents.push_back(*ReadFile(*disk_, JoinPath(folder, name), kFolderFileMax));
    const std::string& bytes = contents.back();
    files.push_back({name, static_cast<int64_t>(bytes.size()), Sha256Hex(bytes)});
  }
  init.set_upload(DigestOfFiles(files));
  LH_ASSIGN_OR_RETURN(const Uploads::Prepared prepared, uploads->Prepare(files));
  for (size_t i = 0; i < files.size() && !prepared.complete; ++i) {
    if (prepared.files[i].verified) continue;
    const int64_t from = prepared.files[i].bytes;
    LH_ASSIGN_OR_RETURN(const auto file, uploads->Receive(init.upload(), files[i].name, from));
    MayDie();
    LH_RETURN_IF_ERROR(file->Append(absl::string_view(contents[i]).substr(from)));
    MayDie();
    LH_RETURN_IF_ERROR(file->Finish().status());
  }
  return absl::OkStatus();
}

void CoordinatorNode::ObserveBeginning(const ResolvedJob& resolved, const std::string& id) {
  const v1::InitSpec& init = resolved.spec.init();
  if (init.has_folder() || init.has_upload()) {
    std::vector<Words> parameters;
    for (size_t f = 0; f < resolved.schedule.size(); ++f)
      parameters.push_back(InitialWords(resolved.spec.name(), static_cast<int>(f)));
    return world_->checker.Begins(id, std::move(parameters));
  }
  const auto name = ParseCheckpointName(resolved.spec.init().checkpoint());
  if (!name.has_value() || meta_->FindJobByToken(id).ok()) return;
  const auto manifests = ListCheckpoints(*disk_, JobFolder(kDataDir, name->job));
  LH_CHECK(manifests.ok(), "it was found there");
  for (const v1::CheckpointManifest& manifest : *manifests) {
    if (manifest.step() == name->step) world_->checker.Begins(id, manifest);
  }
}

bool CoordinatorNode::Cancel(const std::string& name) {
  const absl::StatusOr<JobRecord> job = meta_->GetJob(name);
  if (!job.ok()) return true;
  world_->checker.MayBeCancelled(job->id);
  return Ask(coordinator::CancelJob{job->id, "by the user"});
}

bool CoordinatorNode::Ask(const coordinator::Event& event, bool* accepted) {
  struct Told {
    bool answered = false, accepted = false;
  };
  const auto told = std::make_shared<Told>();
  const bool alive = Enter([&] {
    performer().Step(event, [this, told](const std::optional<coordinator::Answer>& answer) {
      MayDie();
      const auto* refuse =
          answer.has_value() ? std::get_if<coordinator::Refuse>(&*answer) : nullptr;
      told->accepted = refuse == nullptr;
      told->answered = refuse == nullptr || (!absl::IsResourceExhausted(refuse->status) &&
                                             refuse->reason != "JOB_QUARANTINED");
    });
  });
  if (accepted != nullptr) *accepted = alive && told->accepted;
  return alive && told->answered;
}

bool CoordinatorNode::Pause(const std::string& name, bool stays) {
  const absl::StatusOr<JobRecord> job = meta_->GetJob(name);
  if (!job.ok()) return true;
  world_->Trace("user", absl::StrCat("pauses ", job->id, stays ? " for good" : ""));
  world_->checker.MayBePaused(job->id);
  bool accepted = false;
  const bool answered = Ask(coordinator::PauseJob{.job = job->id}, &accepted);
  if (accepted && stays) world_->checker.StaysPaused(job->id);
  return answered;
}

bool CoordinatorNode::Resume(const std::string& name) {
  const absl::StatusOr<JobRecord> job = meta_->GetJob(name);
  if (!job.ok()) return true;
  world_->Trace("user", absl::StrCat("resumes ", job->id));
  world_->checker.MayBeResumed(job->id);
  return Ask(coordinator::ResumeJob{.job = job->id});
}

std::optional<coordinator::Answer> CoordinatorNode::AskCheckpoint(const std::string& name) {
  const auto answer = std::make_shared<std::optional<coordinator::Answer>>();
  const bool alive = Enter([&] {
    const absl::StatusOr<JobRecord> job = meta_->GetJob(name);
    Step(coordinator::AskCheckpoint{job.ok() ? job->id : name},
         [answer](const coordinator::Answer& given) { *answer = given; });
  });
  if (!alive) return std::nullopt;
  return *answer;
}

std::optional<absl::StatusOr<coordinator::Deleted>> CoordinatorNode::Delete(
    const std::string& name) {
  const auto answer = std::make_shared<std::optional<absl::StatusOr<coordinator::Deleted>>>();
  if (const absl::StatusOr<JobRecord> job = meta_->GetJob(name); job.ok())
    world_->checker.MayBeDeleted(job->id);
  const bool alive = Enter([&] {
    performer().Delete(name, [this, answer](auto deleted) {
      MayDie();
      *answer = std::move(deleted);
      MayDie();
    });
  });
  if (!alive) return std::nullopt;
  return *answer;
}

}  // namespace longhaul::simulation
