#include "coordinator/effects/metrics.h"

#include "absl/strings/str_cat.h"
#include "coordinator/fragments/metrics.h"

namespace longhaul::coordinator {

EffectMetrics::EffectMetrics(MetricRegistry& registry)
    : jobs(registry.Gauge("longhaul_coordinator_jobs", "Jobs that are stored, by state.")),
      pools(registry.Gauge("longhaul_coordinator_pools",
                           "Pools: live hold a lease, participating contribute to rounds.")),
      rounds(registry.Counter("longhaul_coordinator_rounds_total",
                              "Rounds that were committed and published.")),
      commit_seconds(registry.Histogram(
          "longhaul_coordinator_commit_seconds",
          "From the last contribution of a round to its published commit.", SecondsBuckets())),
      outer_gradient_norm(registry.Gauge("longhaul_coordinator_outer_gradient_norm",
                                         "L2 norm of the newest averaged outer gradient.")),
      downlink_nmse(registry.Gauge("longhaul_coordinator_downlink_nmse_ratio",
                                   "Normalised mean squared error of the newest downlink.")),
      eval_loss(registry.Gauge("longhaul_coordinator_eval_loss_nats",
                               "Newest loss of the outer parameters on held-out data.")) {}

void EffectMetrics::RemoveJob(const std::string& job, int fragments) {
  eval_loss.Remove({{"job", job}});
  for (const char* kind : {"seed", "outer", "final", "skipped"})
    rounds.Remove({{"job", job}, {"kind", kind}});
  for (int fragment = 0; fragment < fragments; ++fragment) {
    const MetricLabels labels = {{"job", job}, {"fragment", absl::StrCat(fragment)}};
    outer_gradient_norm.Remove(labels);
    downlink_nmse.Remove(labels);
  }
}

}  // namespace longhaul::coordinator
