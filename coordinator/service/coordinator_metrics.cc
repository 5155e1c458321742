#include "coordinator/service/coordinator_metrics.h"

#include "absl/strings/str_cat.h"

namespace longhaul::coordinator {
namespace {

std::vector<double> SecondsBuckets() {
  return {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30};
}

}  // namespace

CoordinatorMetrics::CoordinatorMetrics(MetricRegistry& registry)
    : jobs(registry.Gauge("longhaul_coordinator_jobs", "Jobs that are stored, by state.")),
      pools(registry.Gauge("longhaul_coordinator_pools",
                           "Pools: live hold a lease, participating contribute to rounds.")),
      rounds(registry.Counter("longhaul_coordinator_rounds_total",
                              "Rounds that were committed and published.")),
      wire_payload_bytes(registry.Counter("longhaul_coordinator_wire_payload_bytes_total",
                                          "Coded elements of bulk streams.")),
      wire_total_bytes(registry.Counter("longhaul_coordinator_wire_bytes_total",
                                        "Bulk streams with chunk headers and framing.")),
      refused(registry.Counter("longhaul_coordinator_refused_streams_total",
                               "Bulk streams that failed, by reason.")),
      heartbeats(registry.Counter("longhaul_coordinator_heartbeats_total",
                                  "Heartbeats that extended a lease.")),
      apply_seconds(registry.Histogram(
          "longhaul_coordinator_apply_seconds",
          "One outer step: decode, average, step, encode, commit to disk.", SecondsBuckets())),
      commit_seconds(registry.Histogram(
          "longhaul_coordinator_commit_seconds",
          "From the last contribution of a round to its published commit.", SecondsBuckets())),
      outer_gradient_norm(registry.Gauge("longhaul_coordinator_outer_gradient_norm",
                                         "L2 norm of the newest averaged outer gradient.")),
      downlink_nmse(registry.Gauge("longhaul_coordinator_downlink_nmse_ratio",
                                   "Normalised mean squared error of the newest downlink.")),
      uplink_nmse(registry.Gauge(
          "longhaul_coordinator_uplink_nmse_ratio",
          "Normalised mean squared error of the newest uplink stream, as its sender measured it.")),
      eval_loss(registry.Gauge("longhaul_coordinator_eval_loss_nats",
                               "Newest loss of the outer parameters on held-out data.")),
      job_inner_step(registry.Gauge("longhaul_coordinator_job_inner_step",
                                    "Inner step of the slowest live pool.")),
      job_tokens(registry.Gauge("longhaul_coordinator_job_tokens",
                                "Tokens trained on, all pools together.")),
      job_utilization(
          registry.Gauge("longhaul_coordinator_job_utilization_ratio",
                         "Compute / (compute + exposed wait + sync), mean over pools.")),
      bulk_streams(registry.Gauge("longhaul_coordinator_bulk_streams", "Bulk streams in flight.")) {
}

void CoordinatorMetrics::RemoveJob(const std::string& job, int fragments) {
  for (GaugeFamily* family : {&eval_loss, &job_inner_step, &job_tokens, &job_utilization})
    family->Remove({{"job", job}});
  for (const char* kind : {"seed", "outer", "final", "skipped"})
    rounds.Remove({{"job", job}, {"kind", kind}});
  for (int fragment = 0; fragment < fragments; ++fragment) {
    const MetricLabels labels = {{"job", job}, {"fragment", absl::StrCat(fragment)}};
    outer_gradient_norm.Remove(labels);
    downlink_nmse.Remove(labels);
    uplink_nmse.Remove(labels);
  }
}

}  // namespace longhaul::coordinator
