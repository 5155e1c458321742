#include "coordinator/service/submission.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/config/data_sources.h"
#include "common/rpc/status_details.h"
#include "coordinator/effects/live_job.h"

namespace longhaul::coordinator {
namespace {

constexpr size_t kIdempotencyTokenBytesMax = 128;
// As of the document that the CLI takes. Every report of the job has the spec.
constexpr size_t kSpecBytesMax = 1 << 20;

// A job whose state can never fit is refused now. One that fits only when other jobs have ended
// waits for that.
absl::Status CheckMemory(const ResolvedJob& resolved, int64_t memory) {
  const int64_t needed = MemoryOf(resolved);
  if (needed <= memory) return absl::OkStatus();
  return BadRequestError(
      {{"model",
        absl::StrFormat("the job needs %.1f GB of coordinator memory for its outer state, but jobs "
                        "may use at most %.1f GB (--memory-gib); each parameter needs 12 bytes, in "
                        "the largest fragment 24 bytes and its coded downlink",
                        static_cast<double>(needed) / 1e9, static_cast<double>(memory) / 1e9)}});
}

}  // namespace

std::vector<FieldViolation> ToFieldViolations(const std::vector<SpecViolation>& violations) {
  std::vector<FieldViolation> fields;
  for (const SpecViolation& violation : violations) {
    std::string description = violation.description;
    if (!violation.hint.empty()) absl::StrAppend(&description, "; ", violation.hint);
    fields.push_back({violation.field, std::move(description)});
  }
  return fields;
}

absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request, int64_t memory) {
  if (request.idempotency_token().size() > kIdempotencyTokenBytesMax) {
    return BadRequestError(
        {{"idempotency_token",
          absl::StrCat("has more than ", kIdempotencyTokenBytesMax, " characters")}});
  }
  if (const size_t bytes = request.spec().ByteSizeLong(); bytes > kSpecBytesMax) {
    return BadRequestError(
        {{"spec", absl::StrFormat("has %d bytes, expected at most %d", bytes, kSpecBytesMax)}});
  }
  v1::JobSpec spec = request.spec();
  FillTokenizers(spec);
  std::vector<SpecViolation> violations;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(spec, &violations);
  if (!resolved.ok()) return WithFieldViolations(resolved.status(), ToFieldViolations(violations));
  LH_RETURN_IF_ERROR(CheckMemory(*resolved, memory));
  return resolved;
}

}  // namespace longhaul::coordinator
