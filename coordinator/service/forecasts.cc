#include "coordinator/service/forecasts.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "common/plan/job/forecast_check.h"
#include "common/plan/job/job_forecast.h"
#include "common/plan/job/pool_sites.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "common/wire/proto_values.h"
#include "coordinator/effects/refusal.h"
#include "coordinator/service/initial_checkpoint.h"
#include "coordinator/service/job_report.h"
#include "coordinator/service/submission.h"

namespace longhaul::coordinator {
namespace {

// For the speed of pools.
constexpr int kJobsLookedAt = 200;
constexpr double kGiB = 1 << 30;

absl::Status NoPool() {
  return WithErrorInfo(
      absl::FailedPreconditionError(
          "no connected pool could do this job, so its pools are not known"),
      {.reason = "NO_POOL",
       .metadata = {{"hint", "describe the pools: `longhaul plan --sites FILE`"}}});
}

// The sites with what they lack, and the forecast. `where`: the field of the sites in the request.
absl::Status Fill(const ResolvedJob& job, const v1::Sites& sites, const std::string& where,
                  v1::PlanJobResponse* response) {
  std::vector<SpecViolation> violations;
  absl::StatusOr<v1::Sites> complete = plan::CompleteSites(job, sites, &violations);
  if (!complete.ok()) {
    for (SpecViolation& violation : violations) {
      if (violation.field != "model") violation.field = where + "." + violation.field;
    }
    return BadRequestError(ToFieldViolations(violations));
  }
  *response->mutable_forecast() = plan::ForecastJob(job, *complete);
  *response->mutable_sites() = *std::move(complete);
  return absl::OkStatus();
}

}  // namespace

Forecasts::Forecasts(const ServiceContext& service, std::function<v1::ListPoolsResponse()> pools)
    : service_(service), pools_(std::move(pools)) {}

void Forecasts::Gather(Then then) {
  const bool posted = service_.reader->Submit([this, then] {
    absl::StatusOr<std::vector<ListedJob>> rows =
        ReadListed(service_.control->meta(), std::numeric_limits<int64_t>::max(), kJobsLookedAt);
    if (!rows.ok()) return then(rows.status());
    const auto shared = std::make_shared<std::vector<ListedJob>>(*std::move(rows));
    const bool asked = service_.owner->PostRead(
        [this, then, shared] {
          Known known{.pools = pools_()};
          for (ListedJob& row : *shared)
            *known.jobs.add_jobs() = ReportListed(*service_.control, std::move(row));
          then(std::move(known));
        },
        [then](const absl::Status& status) { then(status); });
    if (!asked) then(Overloaded());
  });
  if (!posted) then(Overloaded());
}

void Forecasts::Plan(grpc::ServerUnaryReactor* reactor, const v1::PlanJobRequest& request,
                     v1::PlanJobResponse* response) {
  const auto end = [reactor](const absl::Status& status) { reactor->Finish(ToGrpcStatus(status)); };
  v1::SubmitJobRequest submission;
  *submission.mutable_spec() = request.spec();
  if (const absl::Status filled = FillModel(service_, *submission.mutable_spec()); !filled.ok())
    return end(filled);
  absl::StatusOr<ResolvedJob> resolved = ResolveSubmission(submission, service_.memory);
  if (!resolved.ok()) return end(resolved.status());
  if (request.has_sites()) return end(Fill(*resolved, request.sites(), "sites", response));
  const auto job = std::make_shared<ResolvedJob>(*std::move(resolved));
  Gather([this, end, job, response](absl::StatusOr<Known> known) {
    if (!known.ok()) return end(known.status());
    v1::Sites sites = plan::SitesOfPools(*job, known->pools, known->jobs);
    if (sites.pools_size() == 0) return end(NoPool());
    if (service_.memory < std::numeric_limits<int64_t>::max())
      sites.mutable_coordinator()->set_memory_gib(static_cast<double>(service_.memory) / kGiB);
    const bool posted = service_.beside->Submit(
        [end, job, response, sites] { end(Fill(*job, sites, "pools", response)); });
    if (!posted) end(Overloaded());
  });
}

void Forecasts::Look() {
  std::set<std::string> alive;
  for (const std::shared_ptr<LiveJob>& job : service_.control->All()) {
    alive.insert(job->id());
    const bool trains = job->state() == JobState::kRunning && job->resolved.has_value() &&
                        job->resolved->spec.model().has_transformer();
    if (!trains || job->progress.forecast().has_value() || !looked_at_.insert(job->id()).second)
      continue;
    Gather([this, id = job->id()](absl::StatusOr<Known> known) {
      // Otherwise this job has no forecast: nothing depends on it.
      if (known.ok()) MakeFor(id, *std::move(known));
    });
  }
  std::erase_if(looked_at_, [&](const std::string& id) { return !alive.contains(id); });
}

void Forecasts::MakeFor(const std::string& id, Known known) {
  const std::shared_ptr<LiveJob> live = service_.control->Find(id);
  if (live == nullptr || !live->resolved.has_value()) return;
  const auto job = std::make_shared<ResolvedJob>(*live->resolved);
  // Not its own speed: what the forecast says shall be known before.
  auto& jobs = *known.jobs.mutable_jobs();
  jobs.erase(std::remove_if(jobs.begin(), jobs.end(),
                            [&](const v1::Job& other) { return other.id() == id; }),
             jobs.end());
  auto& pools = *known.pools.mutable_pools();
  pools.erase(std::remove_if(pools.begin(), pools.end(),
                             [&](const v1::Pool& pool) { return pool.job_id() != id; }),
              pools.end());
  const absl::Time now = service_.control->now();
  (void)service_.beside->Submit([this, id, job, now, known = std::move(known)] {
    v1::PlanJobResponse response;
    const v1::Sites sites = plan::SitesOfPools(*job, known.pools, known.jobs);
    if (sites.pools_size() == 0 || !Fill(*job, sites, "pools", &response).ok()) return;
    v1::ForecastCheck check = plan::CheckOf(*job, response.forecast());
    *check.mutable_made_at() = ToProto(now);
    (void)service_.owner->Post([this, id, check = std::move(check)] {
      const std::shared_ptr<LiveJob> made_for = service_.control->Find(id);
      if (made_for != nullptr) made_for->progress.SetForecast(check);
    });
  });
}

}  // namespace longhaul::coordinator
