// Submits and deletes jobs, and reads what ended jobs left.
#include <optional>
#include <random>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/performer.h"
#include "coordinator/effects/refusal.h"

namespace longhaul::coordinator {
namespace {

// An id begins with a digit, so it is never the name of a job. Ids sort by time.
std::string MakeJobId(absl::Time now) {
  std::random_device random;
  return absl::StrFormat("%s-%06x", absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone()),
                         random() & 0xffffff);
}

// A spec that an earlier version of the program stored lacks the defaults of newer fields. So both
// are compared with their defaults filled in.
bool IsSame(const std::string& stored, const v1::JobSpec& spec) {
  if (stored == spec.SerializeAsString()) return true;
  v1::JobSpec earlier;
  if (!earlier.ParseFromString(stored)) return false;
  const absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(earlier);
  return resolved.ok() && resolved->spec.SerializeAsString() == spec.SerializeAsString();
}

absl::Status Taken(absl::string_view what, absl::string_view reason, const JobRecord& job) {
  return WithErrorInfo(absl::AlreadyExistsError(what), {std::string(reason), {{"job", job.id}}});
}

// The id of the job that was submitted with these words before, if any. ALREADY_EXISTS: another job
// has the name or the token.
absl::StatusOr<std::optional<std::string>> FindSame(MetaStore& meta, const v1::JobSpec& spec,
                                                    const std::string& token) {
  if (!token.empty()) {
    const absl::StatusOr<JobRecord> first = meta.FindJobByToken(token);
    if (first.ok() && IsSame(first->spec, spec)) return first->id;
    if (first.ok()) {
      return Taken(absl::StrCat("the idempotency token was already used with another spec, by job ",
                                first->name),
                   "TOKEN_TAKEN", *first);
    }
    if (!absl::IsNotFound(first.status())) return first.status();
  }
  const absl::StatusOr<JobRecord> same = meta.GetJob(spec.name());
  if (same.ok()) {
    const JobState state = same->state;
    if (state == JobState::kFailed || state == JobState::kCancelled) {
      return Taken(
          absl::StrCat("the name ", same->name, " is taken by job ", same->id, ", which is ",
                       JobStateName(state), "; choose another name for this job"),
          "NAME_TAKEN", *same);
    }
    if (IsSame(same->spec, spec)) return same->id;
    return Taken(absl::StrCat("the name ", same->name, " is taken by job ", same->id,
                              ", which has another spec"),
                 "NAME_TAKEN", *same);
  }
  if (!absl::IsNotFound(same.status())) return same.status();
  return std::nullopt;
}

// Of a job that was deleted meanwhile the files may be there for a while.
absl::Status CheckInitial(MetaStore& meta, const Fragments& fragments, const JobFragments& job) {
  const std::optional<InitialCheckpoint>& initial = job.initial();
  if (initial.has_value() && !initial->job.empty() &&
      absl::IsNotFound(meta.GetJob(initial->job).status())) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", initial->job, ", whose checkpoint this job starts from, was deleted"));
  }
  return fragments.CheckInitial(job);
}

}  // namespace

absl::StatusOr<Submitted> Performer::Submit(ResolvedJob resolved, const std::string& token,
                                            const std::string& owner) {
  if (halted_) return ToStatus(HaltedRefusal());
  MetaStore& meta = *parts_.meta;
  LH_ASSIGN_OR_RETURN(const std::optional<std::string> same, FindSame(meta, resolved.spec, token));
  if (same.has_value()) return Submitted{*same};
  if (full()) return DiskFullError("no job can be stored");
  JobRecord record{.id = NewJobId(),
                   .name = resolved.spec.name(),
                   .idempotency_token = token,
                   .state = JobState::kPending,
                   .spec = resolved.spec.SerializeAsString(),
                   .created = now(),
                   .owner = owner};
  const JobOptions job_options = JobOptionsOf(resolved);
  LH_ASSIGN_OR_RETURN(const std::shared_ptr<LiveJob> job,
                      MakeLiveJob(std::move(record), std::move(resolved)));
  // The checkpoint is not removed between the check and the decision.
  const std::shared_ptr<const void> held =
      parts_.fragments->HoldCheckpoint(job_options.from_job, job_options.from_step);
  LH_RETURN_IF_ERROR(CheckInitial(meta, *parts_.fragments, *job->fragments));
  const std::string id = job->id();
  parts_.fragments->Add(job->fragments);
  jobs_[id] = job;
  // If the disk is full now, the decision waits, and the caller comes again.
  const auto status = std::make_shared<absl::Status>(DiskFullError("the job is not stored yet"));
  Step(SubmitJob{id, job_options, owner}, [status](const std::optional<Answer>& answer) {
    const Refuse* refusal = RefusalIn(answer);
    *status = refusal == nullptr ? absl::OkStatus() : ToStatus(*refusal);
  });
  if (status->ok()) return Submitted{id, true};
  if (View(id).has_value()) return *status;
  // It was refused.
  jobs_.erase(id);
  parts_.fragments->Forget(id);
  return *status;
}

void Performer::Delete(const std::string& name_or_id,
                       absl::AnyInvocable<void(absl::StatusOr<Deleted>)> done) {
  const absl::StatusOr<JobRecord> record = parts_.meta->GetJob(name_or_id);
  if (absl::IsNotFound(record.status())) {
    const absl::StatusOr<std::string> before = parts_.meta->FindDeleted(name_or_id);
    if (before.ok()) return done(Deleted{*before, false});
    return done(NoSuchJob(name_or_id));
  }
  if (!record.ok()) return done(record.status());
  auto answer = [id = record->id,
                 done = std::move(done)](const std::optional<Answer>& answer) mutable {
    if (const Refuse* refusal = RefusalIn(answer)) return done(ToStatus(*refusal));
    done(Deleted{id, true});
  };
  Step(coordinator::DeleteJob{record->id, record->state}, std::move(answer));
}

std::vector<v1::JobEvent> Performer::EventsAfter(const std::string& id, int64_t sequence) const {
  if (const std::shared_ptr<LiveJob> job = Find(id)) return job->events.After(sequence);
  JobEvents stored;
  const absl::StatusOr<std::vector<std::string>> events = parts_.meta->ListEvents(id);
  if (events.ok()) stored.Restore(*events);
  return stored.After(sequence);
}

std::string Performer::NewJobId() const {
  if (parts_.job_id) return parts_.job_id();
  std::string id = MakeJobId(now());
  while (jobs_.contains(id)) id = MakeJobId(now());
  return id;
}

}  // namespace longhaul::coordinator
