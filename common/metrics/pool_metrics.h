// What a pool reports of its training, as metrics: the same on the coordinator, of every pool, and on
// the worker, of its own. Labels: job_name, pool.
#pragma once

#include <string>

#include "common/metrics/registry.h"
#include "common/metrics/shown_series.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul {

// Externally synchronised.
class PoolMetrics {
 public:
  // Names begin with `prefix`, as "longhaul_coordinator_pool".
  PoolMetrics(MetricRegistry& registry, const std::string& prefix);

  // Through `shown`, whose Sweep ends what is not there any more. Sums are those of all the pool's
  // times in the job.
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
  // use, level; and what. Of pools that move something.
  CounterFamily& received_bytes_;
  GaugeFamily& in_pool_nmse_;
  CounterFamily& skipped_steps_;
};

}  // namespace longhaul
