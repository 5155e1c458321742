#include "coordinator/service/job_metrics.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "coordinator/service/job_report.h"

namespace longhaul::coordinator {

JobMetrics::JobMetrics(MetricRegistry& registry)
    : inner_step_(
          registry.Gauge("longhaul_coordinator_job_inner_step",
                         "Inner step of the slowest live pool, or of the newest committed round.")),
      steps_(registry.Gauge("longhaul_coordinator_job_steps", "Inner steps of the whole job.")),
      tokens_(registry.Counter("longhaul_coordinator_job_tokens_total",
                               "Tokens, or what `unit` says, that all pools trained on.")),
      contributed_tokens_(
          registry.Counter("longhaul_coordinator_job_contributed_tokens_total",
                           "Tokens, or what `unit` says, of all pools whose training is part of a "
                           "committed round.")),
      utilization_(registry.Gauge("longhaul_coordinator_job_utilization_ratio",
                                  "Compute / (compute + exposed wait + sync), mean over pools.")),
      waiting_seconds_(
          registry.Gauge("longhaul_coordinator_job_waiting_seconds",
                         "How long the job has been waiting for its current wait reason.")),
      state_(
          registry.Gauge("longhaul_coordinator_job_state", "1 for the current state of the job.")),
      pools_(registry.Gauge("longhaul_coordinator_job_pools",
                            "Pools of the job: alive (hold a lease), participating (contribute to "
                            "rounds), set_aside (reported that they cannot run it).")),
      findings_(registry.Gauge("longhaul_coordinator_job_findings",
                               "What is wrong with the training of the job (Job.health), by code "
                               "and level (WARNING, FAILING): how many pools are affected, or 1.")),
      forecast_(
          registry.Gauge("longhaul_coordinator_job_forecast",
                         "What was forecast of the job when it began to train, by term "
                         "(ForecastTerm in plan.proto): seconds of an inner step, and so on.")),
      measured_(registry.Gauge("longhaul_coordinator_job_forecast_measured",
                               "What was measured since, by the same terms.")),
      late_rounds_(registry.Counter(
          "longhaul_coordinator_pool_late_rounds_total",
          "Rounds that were committed without this live pool (sync.mode QUORUM).")),
      left_out_rounds_(registry.Counter(
          "longhaul_coordinator_pool_left_out_rounds_total",
          "Contributions of this pool that guard.outer left out of their rounds.")),
      pool_(registry, "longhaul_coordinator_pool") {}

void JobMetrics::ShowJob(const std::string& job, const v1::Job& report, const JobView& view,
                         absl::Time now) {
  const MetricLabels labels = {{kJobLabel, job}};
  shown_.Show(inner_step_, labels).Set(static_cast<double>(report.inner_step()));
  shown_.Show(steps_, labels).Set(static_cast<double>(report.spec().train().steps()));
  const MetricLabels counted = {{kJobLabel, job}, {"unit", report.unit_name()}};
  RaiseTo(shown_.Show(tokens_, counted), static_cast<double>(report.tokens()));
  RaiseTo(shown_.Show(contributed_tokens_, counted),
          static_cast<double>(report.contributed_tokens()));
  shown_.Show(utilization_, labels).Set(report.utilization());
  shown_.Show(waiting_seconds_, labels)
      .Set(view.waiting.has_value() ? absl::ToDoubleSeconds(now - view.waiting->since) : 0);
  shown_.Show(state_, {{kJobLabel, job}, {"state", v1::JobState_Name(report.state())}}).Set(1);
  int alive = 0, participating = 0;
  for (const ParticipantView& place : view.participants) {
    alive += place.live;
    participating += place.live && place.start_step.has_value();
  }
  for (const auto& [state, pools] : {std::pair("alive", alive),
                                     {"participating", participating},
                                     {"set_aside", static_cast<int>(view.set_aside.size())}}) {
    shown_.Show(pools_, {{kJobLabel, job}, {"state", state}}).Set(pools);
  }
  std::map<std::pair<std::string, v1::JobHealth::Level>, int> findings;
  for (const v1::HealthFinding& finding : report.health().findings())
    ++findings[{finding.code(), finding.level()}];
  for (const auto& [finding, count] : findings) {
    shown_
        .Show(findings_, {{kJobLabel, job},
                          {"code", finding.first},
                          {"level", v1::JobHealth::Level_Name(finding.second)}})
        .Set(count);
  }
  for (const v1::ForecastTerm& term : report.forecast().terms()) {
    const MetricLabels of_term = {{kJobLabel, job}, {"term", term.name()}};
    shown_.Show(forecast_, of_term).Set(term.forecast());
    if (term.has_measured()) shown_.Show(measured_, of_term).Set(term.measured());
  }
  for (const v1::PoolProgress& pool : report.pools()) {
    pool_.Show(job, pool, shown_);
    if (report.spec().guard().outer() == v1::LEAVE_OUT) {
      RaiseTo(shown_.Show(left_out_rounds_, {{kJobLabel, job}, {"pool", pool.pool()}}),
              static_cast<double>(pool.left_out_rounds()));
    }
    if (report.spec().sync().mode() != v1::QUORUM) continue;
    RaiseTo(shown_.Show(late_rounds_, {{kJobLabel, job}, {"pool", pool.pool()}}),
            static_cast<double>(pool.late_rounds()));
  }
}

void JobMetrics::Show(const ControlPlane& control) {
  for (const std::shared_ptr<LiveJob>& job : control.All()) {
    const std::optional<JobView> view = control.View(job->id());
    v1::Job report = ReportShortened(*job, job->record, view, control.now());
    // Also where that part of the spec is large.
    if (job->resolved.has_value()) {
      const v1::JobSpec& spec = job->resolved->spec;
      report.mutable_spec()->mutable_sync()->set_mode(spec.sync().mode());
      report.mutable_spec()->mutable_guard()->set_outer(spec.guard().outer());
    }
    ShowJob(job->name(), report, view.value_or(JobView()), control.now());
  }
  shown_.Sweep();
}

}  // namespace longhaul::coordinator
