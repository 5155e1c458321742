// The plan of a job's spec.
#pragma once

#include "absl/status/statusor.h"
#include "longhaul/v1/job.pb.h"
#include "worker/plan/training_plan.h"

namespace longhaul {

// How many evaluations may be in progress alongside training. 0: none.
int EvaluationsBeside(const v1::EvaluationSpec& spec);

// `spec` has its defaults filled in. INVALID_ARGUMENT: no partition preset has this name. Pure.
absl::StatusOr<TrainingPlan> PlanOf(const v1::JobSpec& spec);

}  // namespace longhaul
