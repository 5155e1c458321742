// What a job would take at given sites: memory, times, bytes, utilization, and what would change
// them. It puts together the models of this folder; what is not measured is nominal, and named in
// JobForecast.assumptions. Pure functions.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/config/job_spec.h"
#include "common/config/spec_violation.h"
#include "common/plan/exchange_forecast.h"
#include "longhaul/v1/plan.pb.h"

namespace longhaul::plan {

// Reads YAML that people write. As ParseJobSpec: INVALID_ARGUMENT, and `violations` receives all
// mistakes of types and names.
absl::StatusOr<v1::Sites> ParseSites(absl::string_view text,
                                     std::vector<SpecViolation>* violations = nullptr);

// The sites with what their machines give, and defaults. INVALID_ARGUMENT, with all mistakes in
// `violations`: a value is out of range, a machine is not known, or the sites contradict the job
// (its device, its partition, pools.min).
absl::StatusOr<v1::Sites> CompleteSites(const ResolvedJob& job, const v1::Sites& sites,
                                        std::vector<SpecViolation>* violations = nullptr);

// `sites` as CompleteSites gave them for this job.
v1::JobForecast ForecastJob(const ResolvedJob& job, const v1::Sites& sites);

// Which single settings would bring JobForecast.pace_utilization to `wanted`, each with the
// smallest change that does; then those that do not reach it, with the reason. Empty if the
// forecast reaches it.
std::vector<v1::PlannedChange> ChangesFor(const ResolvedJob& job, const v1::Sites& sites,
                                          const v1::JobForecast& forecast, double wanted);

// What ForecastJob says of the exchange alone: JobForecast.pace_utilization and seconds.
struct Pace {
  double utilization = 0, seconds = 0;
};
Pace PaceOf(const ResolvedJob& job, const v1::Sites& sites);

// What the forecast of the exchange goes by: what the job exchanges, and how fast each pool is,
// copies one after another.
ExchangeSetting ExchangeSettingOf(const ResolvedJob& job, const v1::Sites& sites);
std::vector<PoolRates> PoolRatesOf(const ResolvedJob& job, const v1::Sites& sites);

// Gives the links of all pools this bandwidth, each way.
void SetLinks(double mbps, v1::Sites& sites);

}  // namespace longhaul::plan
