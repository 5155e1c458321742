// The coordinator's metrics, in one place. Labels: `job` is the name of a live job (its series end
// with it), `codec` and `reason` are words of ours.
#pragma once

#include "common/metrics/registry.h"

namespace longhaul::coordinator {

struct CoordinatorMetrics {
  explicit CoordinatorMetrics(MetricRegistry& registry);

  GaugeFamily& jobs;                  // state
  GaugeFamily& pools;                 // state
  CounterFamily& rounds;              // job, kind
  CounterFamily& wire_payload_bytes;  // direction, codec
  CounterFamily& wire_total_bytes;    // direction, codec
  CounterFamily& refused;             // reason
  CounterFamily& heartbeats;
  HistogramFamily& apply_seconds;
  HistogramFamily& commit_seconds;
  GaugeFamily& outer_gradient_norm;  // job, fragment
  GaugeFamily& downlink_nmse;        // job, fragment
  GaugeFamily& uplink_nmse;          // job, fragment
  GaugeFamily& eval_loss;            // job
  GaugeFamily& job_inner_step;       // job
  GaugeFamily& job_tokens;           // job
  GaugeFamily& job_utilization;      // job
  GaugeFamily& bulk_streams;

  // Ends the series of a job.
  void RemoveJob(const std::string& job, int fragments);
};

}  // namespace longhaul::coordinator
