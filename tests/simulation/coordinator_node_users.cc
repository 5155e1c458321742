// What users call.
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/config/checkpoint_name.h"
#include "coordinator/service/initial_checkpoint.h"
#include "coordinator/store/checkpoint.h"
#include "coordinator/store/data_folder.h"
#include "tests/simulation/coordinator_node.h"

namespace longhaul::simulation {

std::optional<absl::Status> CoordinatorNode::Submit(const v1::JobSpec& spec,
                                                    const std::string& id) {
  submitting_ = id;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec);
  LH_CHECK(resolved.ok(), "the simulated jobs can be");
  const v1::OuterOptimizerSpec& outer = resolved->spec.sync().outer();
  rules_[id] = {static_cast<float>(outer.lr()), static_cast<float>(outer.momentum())};
  absl::Status submitted;
  const bool alive = Enter([&] {
    submitted = coordinator::ResolveInitial({.control = &performer()}, *resolved);
    if (!submitted.ok()) return;
    ObserveBeginning(*resolved, id);
    submitted = performer().Submit(*std::move(resolved), id).status();
  });
  if (!alive) return std::nullopt;
  return submitted;
}

void CoordinatorNode::ObserveBeginning(const ResolvedJob& resolved, const std::string& id) {
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
