#include "coordinator/service/job_gauges.h"

#include <utility>

#include "coordinator/service/job_report.h"

namespace longhaul::coordinator {

JobGauges::JobGauges(MetricRegistry& registry)
    : inner_step_(registry.Gauge("longhaul_coordinator_job_inner_step",
                                 "Inner step of the slowest live pool.")),
      tokens_(registry.Gauge("longhaul_coordinator_job_tokens",
                             "Tokens trained on, all pools together.")),
      utilization_(registry.Gauge("longhaul_coordinator_job_utilization_ratio",
                                  "Compute / (compute + exposed wait + sync), mean over pools.")),
      in_pool_bytes_(registry.Gauge(
          "longhaul_coordinator_in_pool_received_bytes",
          "What rank 0 of a pool received from others of the pool, by use (forward, backward, "
          "gradient, refresh) and by where they are (pair, node, pool), since the job began.")),
      in_pool_nmse_(registry.Gauge(
          "longhaul_coordinator_in_pool_nmse_ratio",
          "||x - decoded||^2 / ||x||^2 of the weights or gradients that a pool quantized in its "
          "newest step.")) {}

void JobGauges::Set(GaugeFamily& family, const MetricLabels& labels, double value) {
  family.With(labels).Set(value);
  shown_.emplace(&family, labels);
}

void JobGauges::ShowPool(const std::string& job, const v1::PoolProgress& pool) {
  const auto show = [&](const char* use, const v1::InPoolBytes& bytes) {
    for (const auto& [level, value] :
         {std::pair("pair", bytes.pair()), {"node", bytes.node()}, {"pool", bytes.pool()}}) {
      if (value == 0) continue;
      Set(in_pool_bytes_, {{"job", job}, {"pool", pool.pool()}, {"use", use}, {"level", level}},
          static_cast<double>(value));
    }
  };
  show("forward", pool.forward());
  show("backward", pool.backward());
  show("gradient", pool.gradient());
  show("refresh", pool.refresh());
  for (const auto& [what, value] :
       {std::pair("weights", pool.weights_nmse()), {"gradients", pool.gradients_nmse()}}) {
    if (value > 0) Set(in_pool_nmse_, {{"job", job}, {"pool", pool.pool()}, {"what", what}}, value);
  }
}

void JobGauges::Show(const Performer& performer) {
  const Series before = std::exchange(shown_, {});
  for (const std::shared_ptr<LiveJob>& job : performer.All()) {
    const v1::Job report = ReportLive(*job, performer.View(job->id()), performer.now());
    const MetricLabels labels = {{"job", job->name()}};
    Set(inner_step_, labels, static_cast<double>(report.inner_step()));
    Set(tokens_, labels, static_cast<double>(report.tokens()));
    Set(utilization_, labels, report.utilization());
    for (const v1::PoolProgress& pool : report.pools()) ShowPool(job->name(), pool);
  }
  for (const auto& series : before) {
    if (!shown_.contains(series)) series.first->Remove(series.second);
  }
}

}  // namespace longhaul::coordinator
