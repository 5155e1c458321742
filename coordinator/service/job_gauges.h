// The gauges of what jobs report: those that need the whole report.
#pragma once

#include <set>
#include <string>
#include <utility>

#include "common/metrics/registry.h"
#include "coordinator/effects/performer.h"

namespace longhaul::coordinator {

// Owner thread.
class JobGauges {
 public:
  explicit JobGauges(MetricRegistry& registry);
  // Shows the jobs that there are, and ends the series of those that there were.
  void Show(const Performer& performer);

 private:
  void Set(GaugeFamily& family, const MetricLabels& labels, double value);
  void ShowPool(const std::string& job, const v1::PoolProgress& pool);

  // job
  GaugeFamily& inner_step_;
  GaugeFamily& tokens_;
  GaugeFamily& utilization_;
  // job, pool, use, level; and job, pool, what. Of pools that move something.
  GaugeFamily& in_pool_bytes_;
  GaugeFamily& in_pool_nmse_;
  using Series = std::set<std::pair<GaugeFamily*, MetricLabels>>;
  Series shown_;
};

}  // namespace longhaul::coordinator
