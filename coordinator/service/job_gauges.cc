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
                                  "Compute / (compute + exposed wait + sync), mean over pools.")) {}

void JobGauges::Show(const Performer& performer) {
  std::set<std::string> gone = std::exchange(shown_, {});
  for (const std::shared_ptr<LiveJob>& job : performer.All()) {
    const v1::Job report = ReportLive(*job, performer.View(job->id()), performer.now());
    const MetricLabels labels = {{"job", job->name()}};
    inner_step_.With(labels).Set(static_cast<double>(report.inner_step()));
    tokens_.With(labels).Set(static_cast<double>(report.tokens()));
    utilization_.With(labels).Set(report.utilization());
    gone.erase(job->name());
    shown_.insert(job->name());
  }
  for (const std::string& job : gone) {
    for (GaugeFamily* family : {&inner_step_, &tokens_, &utilization_})
      family->Remove({{"job", job}});
  }
}

}  // namespace longhaul::coordinator
