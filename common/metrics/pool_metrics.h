// A pool's reports of its training, as metrics. The coordinator shows every pool, and a worker its
// own pool, in the same way. Labels: job_name, pool.
#pragma once

#include <string>

#include "common/metrics/registry.h"
#include "common/metrics/shown_series.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Externally synchronised.
class PoolMetrics {
 public:
  // Names begin with `prefix`, for example "longhaul_coordinator_pool".
  PoolMetrics(MetricRegistry& registry, const std::string& prefix);

  // Shows the series through `shown`, whose Sweep ends series that are not shown any more. Sums
  // include all of the pool's stays in the job.
  void Show(const std::string& job, const v1::PoolProgress& progress, ShownSeries& shown);

 private:
  GaugeFamily& inner_step_;
  GaugeFamily& train_loss_;
  CounterFamily& tokens_;
  GaugeFamily& tokens_per_second_;
  // activity
  CounterFamily& seconds_;
  GaugeFamily& uplink_nmse_;
  GaugeFamily& error_feedback_norm_;
  // use, level, and what. Only for pools that move something.
  CounterFamily& received_bytes_;
  GaugeFamily& in_pool_nmse_;
  CounterFamily& skipped_steps_;
  // Of pools that keep their inner state. what: taken_up, saved.
  GaugeFamily& inner_state_step_;
  CounterFamily& inner_state_losses_;
  CounterFamily& inner_state_failures_;
};

}  // namespace longhaul
