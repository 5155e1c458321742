// The metrics of jobs, pools and rounds. Labels: `job` is the name of a live job (its series end
// with it); `state` and `kind` are words of ours.
#pragma once

#include <string>

#include "common/metrics/registry.h"

namespace longhaul::coordinator {

struct EffectMetrics {
  explicit EffectMetrics(MetricRegistry& registry);

  // state
  GaugeFamily& jobs;
  GaugeFamily& pools;
  // job, kind
  CounterFamily& rounds;
  HistogramFamily& commit_seconds;
  // job, fragment
  GaugeFamily& outer_gradient_norm;
  GaugeFamily& downlink_nmse;
  // job
  GaugeFamily& eval_loss;

  // Ends the series of a job.
  void RemoveJob(const std::string& job, int fragments);
};

}  // namespace longhaul::coordinator
