#include "tests/simulation/users.h"

#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/config/checkpoint_name.h"

namespace longhaul::simulation {
namespace {

constexpr absl::Duration kCallAgain = absl::Milliseconds(700);

// The id of the job with whose checkpoint this one begins.
std::string SourceOf(const JobRecord& job) {
  v1::JobSpec spec;
  LH_CHECK(spec.ParseFromString(job.spec), "ours");
  return ParseCheckpointName(spec.init().checkpoint())->job;
}

}  // namespace

void Users::Repeat(std::function<bool()> call) {
  ++calls_;
  if (coordinator_->up() && call()) {
    --calls_;
    return;
  }
  world_->loop.After(kCallAgain, [this, call = std::move(call)] {
    --calls_;
    Repeat(call);
  });
}

void Users::Submit(const v1::JobSpec& spec) {
  const int before = submissions_[spec.name()]++;
  // An id begins with a digit, so it is never a name.
  const std::string id = absl::StrCat(before, "-", spec.name());
  Repeat([this, spec, id] {
    const std::optional<absl::Status> answer = coordinator_->Submit(spec, id);
    if (!answer.has_value()) return false;
    if (!answer->ok()) return IsRefused(spec, id, *answer);
    world_->checker.Acknowledged(id);
    if (world_->Chance(0.3)) {
      world_->loop.After(world_->Between(absl::ZeroDuration(), absl::Seconds(20)),
                         [this, spec, id] { SubmitAgain(spec, id); });
    }
    return true;
  });
}

void Users::SubmitAgain(const v1::JobSpec& spec, const std::string& id) {
  Repeat([this, spec, id] {
    const absl::StatusOr<JobRecord> job = coordinator_->meta().GetJob(id);
    if (!job.ok() || job->state == JobState::kCancelled) return true;
    const std::optional<absl::Status> answer = coordinator_->Submit(spec, id);
    return answer.has_value() && (answer->ok() || IsRefused(spec, id, *answer));
  });
}

bool Users::IsRefused(const v1::JobSpec& spec, const std::string& id, const absl::Status& status) {
  if (absl::IsResourceExhausted(status)) return false;  // The disk is full.
  world_->Trace("user", absl::StrCat("submits ", id, ": ", status.message()));
  const auto source = ParseCheckpointName(spec.init().checkpoint());
  const absl::StatusOr<JobRecord> job = coordinator_->meta().FindJobByToken(id);
  const absl::StatusOr<JobRecord> other =
      coordinator_->meta().GetJob(source.has_value() ? source->job : "");
  // The name of the other job is a later one's now.
  const bool renamed = job.ok() && other.ok() && SourceOf(*job) != other->id;
  if (!source.has_value() || (job.ok() && !renamed)) {
    world_->checker.Violation(absl::StrCat("3: job ", id, " is refused: ", status.message()));
    return true;
  }
  // The other job has no checkpoint yet, or it will never have one.
  return renamed || !other.ok() || IsEnded(other->state);
}

void Users::AskCheckpoint(const std::string& name) {
  Repeat([this, name] {
    const std::optional<coordinator::Answer> answer = coordinator_->AskCheckpoint(name);
    if (!answer.has_value()) return false;
    if (const auto* refuse = std::get_if<coordinator::Refuse>(&*answer))
      return !absl::IsUnavailable(refuse->status);
    const auto& promise = std::get<coordinator::PromiseCheckpoint>(*answer);
    world_->checker.Promised(promise.job, promise.step);
    return true;
  });
}

void Users::Cancel(const std::string& name) {
  Repeat([this, name] { return coordinator_->Cancel(name); });
}

void Users::Pause(const std::string& name, std::function<void()> then) {
  Repeat([this, name, then = std::move(then)] {
    if (!coordinator_->Pause(name, /*stays=*/then == nullptr)) return false;
    if (then) then();
    return true;
  });
}

void Users::Resume(const std::string& name) {
  Repeat([this, name] { return coordinator_->Resume(name); });
}

void Users::Delete(const std::string& name, std::function<void()> then) {
  Repeat([this, name, then = std::move(then)] {
    const auto answer = coordinator_->Delete(name);
    if (!answer.has_value()) return false;
    if (absl::IsFailedPrecondition(answer->status()) ||
        absl::IsResourceExhausted(answer->status())) {
      return false;
    }
    if (answer->ok()) {
      world_->checker.Deleted(answer->value().job);
      then();
    } else if (!absl::IsNotFound(answer->status())) {
      world_->checker.Violation(absl::StrCat("3: ", answer->status().message()));
    }
    return true;
  });
}

}  // namespace longhaul::simulation
