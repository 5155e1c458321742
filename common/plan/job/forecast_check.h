// Compares the forecast of a job with what its pools report, term by term. Pure functions.
#pragma once

#include "common/config/job_spec.h"
#include "longhaul/v1/job.pb.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::plan {

// What is kept of a forecast, without the time at which it was made. Nothing is measured yet.
v1::ForecastCheck CheckOf(const ResolvedJob& job, const v1::JobForecast& forecast);

// Adds what is measured, as sums of all pools over the job, and says which term was wrong. Does
// nothing while the pools have trained for less than sync.h steps on average, or if the job's model
// is not a transformer.
void AddMeasured(const ResolvedJob& job,
                 const google::protobuf::RepeatedPtrField<v1::PoolProgress>& pools,
                 v1::ForecastCheck& check);

// The term of this name, or null.
const v1::ForecastTerm* TermOf(const v1::ForecastCheck& check, absl::string_view name);

// Names of terms (ForecastTerm).
inline constexpr char kComputeTerm[] = "compute_seconds", kCopyingTerm[] = "copying_seconds",
                      kWaitTerm[] = "wait_seconds", kEvaluationTerm[] = "evaluation_seconds",
                      kUtilizationTerm[] = "utilization", kSpeedTerm[] = "tokens_per_second",
                      kJobTerm[] = "job_seconds";

}  // namespace longhaul::plan
