#include "coordinator/effects/metrics.h"

#include "absl/strings/str_cat.h"
#include "coordinator/fragments/metrics.h"

namespace longhaul::coordinator {

EffectMetrics::EffectMetrics(MetricRegistry& registry)
    : live_pools(registry.Gauge("longhaul_coordinator_live_pools", "Pools with a lease.")),
      jobs(registry.Gauge("longhaul_coordinator_jobs", "Stored jobs, by state.")),
      deleted_jobs(registry.Counter(
          "longhaul_coordinator_deleted_jobs_total",
          "Deleted jobs: by a user, or because --ended-job-keep had passed since their end.")),
      pools(registry.Gauge("longhaul_coordinator_pools", "Known pools, by state.")),
      commit_seconds(registry.Histogram(
          "longhaul_coordinator_commit_seconds",
          "Time from the last contribution of a round to its published commit.", SecondsBuckets())),
      rounds(
          registry.Counter("longhaul_coordinator_rounds_total", "Committed and published rounds.")),
      last_commit(registry.Gauge("longhaul_coordinator_last_commit_timestamp_seconds",
                                 "When the job's newest round was published, as Unix time; after a "
                                 "restart, when it was due.")),
      eval_loss(registry.Gauge("longhaul_coordinator_eval_loss_nats",
                               "Newest loss of the outer parameters on held-out data.")),
      eval_metric(registry.Gauge(
          "longhaul_coordinator_eval_metric",
          "Newest evaluation of the outer parameters, by metric (accuracy). over: examples, the "
          "mean "
          "over all held-out examples; worst_pool and pools, where every pool evaluates.")),
      outer_gradient_norm(registry.Gauge("longhaul_coordinator_outer_gradient_norm",
                                         "L2 norm of the newest averaged outer gradient.")),
      outer_gradient_cosine(
          registry.Gauge("longhaul_coordinator_outer_gradient_cosine_ratio",
                         "Mean pairwise cosine of the pools' newest outer gradients, on a sample. "
                         "1: they agree; 0: they are unrelated.")),
      outer_parameter_norm(registry.Gauge("longhaul_coordinator_outer_parameter_norm",
                                          "L2 norm of the outer parameters.")),
      downlink_nmse(registry.Gauge("longhaul_coordinator_downlink_nmse_ratio",
                                   "Normalised mean squared error of the newest downlink.")) {
  // Zeros, so that the first deletion is seen as a change.
  for (const char* by : {"user", "age"}) deleted_jobs.With({{"by", by}});
}

void EffectMetrics::Published(const std::string& job, const CommitRecord& commit, absl::Time now) {
  rounds.With({{kJobLabel, job}, {"kind", RoundKindName(commit.round.kind)}}).Increment();
  ShowLastCommit(job, now);
  Show(job, commit);
}

void EffectMetrics::ShowLastCommit(const std::string& job, absl::Time at) {
  last_commit.With({{kJobLabel, job}}).Set(absl::ToDoubleSeconds(at - absl::UnixEpoch()));
}

void EffectMetrics::Show(const std::string& job, const CommitRecord& commit) {
  const MetricLabels labels = {{kJobLabel, job}, {"fragment", absl::StrCat(commit.round.fragment)}};
  outer_gradient_norm.With(labels).Set(commit.outer_gradient_norm);
  outer_parameter_norm.With(labels).Set(commit.outer_parameter_norm);
  downlink_nmse.With(labels).Set(commit.downlink_nmse);
  if (commit.contribution_cosine.has_value())
    outer_gradient_cosine.With(labels).Set(*commit.contribution_cosine);
}

void EffectMetrics::Show(const std::string& job, const v1::EvalLoss& evaluation) {
  if (evaluation.evaluations() == 0) return;
  eval_loss.With({{kJobLabel, job}}).Set(evaluation.last());
  const auto show = [&](const auto& metrics, const char* over) {
    for (const v1::Metric& metric : metrics)
      eval_metric.With({{kJobLabel, job}, {"metric", metric.name()}, {"over", over}})
          .Set(metric.value());
  };
  show(evaluation.metrics(), "examples");
  show(evaluation.worst_pool(), "worst_pool");
  show(evaluation.mean_of_pools(), "pools");
}

void EffectMetrics::RemoveJob(const std::string& job) {
  rounds.RemoveWhere(kJobLabel, job);
  for (GaugeFamily* family : {&last_commit, &eval_loss, &eval_metric, &outer_gradient_norm,
                              &outer_gradient_cosine, &outer_parameter_norm, &downlink_nmse}) {
    family->RemoveWhere(kJobLabel, job);
  }
}

}  // namespace longhaul::coordinator
