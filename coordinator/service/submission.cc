#include "coordinator/service/submission.h"

#include <unistd.h>

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_details.h"

namespace longhaul::coordinator {
namespace {

constexpr size_t kIdempotencyTokenBytesMax = 128;
// As of the document that the CLI takes. Every report of the job has the spec.
constexpr size_t kSpecBytesMax = 1 << 20;
constexpr int64_t kStateBytesPerElement =
    12;  // Outer parameters, momentum, server error: fp32 each.

// The state of a job is in memory, so a job that can never fit is refused now.
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

absl::StatusOr<ResolvedJob> ResolveSubmission(const v1::SubmitJobRequest& request) {
  if (request.idempotency_token().size() > kIdempotencyTokenBytesMax) {
    return BadRequestError(
        {{"idempotency_token",
          absl::StrCat("has more than ", kIdempotencyTokenBytesMax, " characters")}});
  }
  if (const size_t bytes = request.spec().ByteSizeLong(); bytes > kSpecBytesMax) {
    return BadRequestError(
        {{"spec", absl::StrFormat("has %d bytes, expected at most %d", bytes, kSpecBytesMax)}});
  }
  std::vector<SpecViolation> violations;
  absl::StatusOr<ResolvedJob> resolved = ResolveJobSpec(request.spec(), &violations);
  if (!resolved.ok()) return WithFieldViolations(resolved.status(), ToFieldViolations(violations));
  LH_RETURN_IF_ERROR(CheckMemory(*resolved));
  return resolved;
}

}  // namespace longhaul::coordinator
