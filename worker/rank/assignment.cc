#include "worker/rank/assignment.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/config/job_spec.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {

absl::StatusOr<v1::Assignment> ParseAssignment(absl::string_view json) {
  v1::Assignment assignment;
  const auto status = google::protobuf::util::JsonStringToMessage(std::string(json), &assignment);
  if (!status.ok()) {
    return absl::InvalidArgumentError(absl::StrCat("the assignment: ", status.ToString()));
  }
  if (assignment.ordinal() < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("the assignment: ordinal ", assignment.ordinal(), " is negative"));
  }
  LH_ASSIGN_OR_RETURN(ResolvedJob job, ResolveJobSpec(assignment.spec()));
  *assignment.mutable_spec() = std::move(job.spec);
  return assignment;
}

}  // namespace longhaul
