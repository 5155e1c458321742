// The gauges of what jobs report: those that need the whole report.
#pragma once

#include <set>
#include <string>

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
  // job
  GaugeFamily& inner_step_;
  GaugeFamily& tokens_;
  GaugeFamily& utilization_;
  std::set<std::string> shown_;
};

}  // namespace longhaul::coordinator
