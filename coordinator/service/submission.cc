#include "coordinator/service/submission.h"

#include <unistd.h>

#include <random>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/live_job.h"

namespace longhaul::coordinator {
namespace {

constexpr size_t kTokenBytesMax = 128;
constexpr int64_t kStateBytesPerElement =
    12;  // Outer parameters, momentum, server error: fp32 each.

std::vector<FieldViolation> ToViolations(const std::vector<SpecViolation>& violations) {
  std::vector<FieldViolation> fields;
  for (const SpecViolation& violation : violations) {
    std::string description = violation.description;
    if (!violation.hint.empty()) absl::StrAppend(&description, "; ", violation.hint);
    fields.push_back({violation.field, std::move(description)});
  }
  return fields;
}

// The state of a job lies in memory: what can never fit is refused now.
absl::Status CheckMemory(const ResolvedJob& resolved) {
  const double needed = static_cast<double>(resolved.model.elements()) * kStateBytesPerElement;
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  if (needed <= memory) return absl::OkStatus();
  return BadRequestError(
      {{"model", absl::StrFormat(
                     "%.1f GB of outer state do not fit into the coordinator's %.1f GB of memory",
                     needed / 1e9, memory / 1e9)}});
}

// Begins with a digit, so that it is never the name of a job. Sorts by time, for people.
std::string MakeJobId(absl::Time now) {
  std::random_device random;
  return absl::StrFormat("%s-%06x", absl::FormatTime("%Y%m%d-%H%M%S", now, absl::UTCTimeZone()),
                         random() & 0xffffff);
}

absl::StatusOr<v1::SubmitJobResponse> Found(Runtime& runtime, const JobRecord& record) {
  v1::SubmitJobResponse response;
  *response.mutable_job() = runtime.Report(record);
  return response;
}

}  // namespace

absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request) {
  if (request.idempotency_token().size() > kTokenBytesMax) {
    return BadRequestError(
        {{"idempotency_token", absl::StrCat("has more than ", kTokenBytesMax, " characters")}});
  }
  std::vector<SpecViolation> violations;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(request.spec(), &violations);
  if (!resolved.ok()) return WithFieldViolations(resolved.status(), ToViolations(violations));
  LH_RETURN_IF_ERROR(CheckMemory(*resolved));
  return resolved;
}

absl::StatusOr<v1::SubmitJobResponse> Submit(Runtime& runtime, ResolvedJob resolved,
                                             const std::string& token) {
  MetaStore& meta = *runtime.parts().meta;
  if (!token.empty()) {
    const absl::StatusOr<JobRecord> first = meta.FindJobByToken(token);
    if (first.ok()) return Found(runtime, *first);
    if (!absl::IsNotFound(first.status())) return first.status();
  }
  const std::string spec = resolved.spec.SerializeAsString();
  const absl::StatusOr<JobRecord> same = meta.GetJob(resolved.spec.name());
  if (same.ok()) {
    if (same->spec == spec) return Found(runtime, *same);
    return WithErrorInfo(
        absl::AlreadyExistsError(absl::StrCat("the name ", same->name, " is taken by job ",
                                              same->id, ", which has another spec")),
        {"NAME_TAKEN", {{"job", same->id}}});
  }
  if (!absl::IsNotFound(same.status())) return same.status();
  JobRecord record{.id = MakeJobId(runtime.now()),
                   .name = resolved.spec.name(),
                   .idempotency_token = token,
                   .state = v1::PENDING,
                   .spec = spec,
                   .status = StatusOf(ReportUnstored(resolved)),
                   .created = runtime.now()};
  LH_ASSIGN_OR_RETURN(record, meta.CreateJob(std::move(record)));
  LH_ASSIGN_OR_RETURN(std::shared_ptr<LiveJob> job, LiveJob::Create(record, std::move(resolved)));
  runtime.Admit(job);
  v1::SubmitJobResponse response;
  *response.mutable_job() = runtime.Report(job->record);
  response.set_created(true);
  return response;
}

}  // namespace longhaul::coordinator
