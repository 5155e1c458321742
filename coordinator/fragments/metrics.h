// The metrics of the bulk exchange. The label `job_name` is the name of a live job; its series end
// with it. It is empty for streams that belong to no job, or end after their job is forgotten. The
// labels `codec` and `reason` have values from fixed lists.
#pragma once

#include <string>

#include "common/metrics/registry.h"

namespace longhaul::coordinator {

struct FragmentMetrics {
  explicit FragmentMetrics(MetricRegistry& registry);

  // job_name, fragment, direction, codec
  CounterFamily& wire_payload_bytes;
  CounterFamily& wire_total_bytes;
  // reason
  CounterFamily& refused;
  HistogramFamily& apply_seconds;
  // job_name, fragment
  GaugeFamily& uplink_nmse;

  // Ends the series of a job.
  void RemoveJob(const std::string& job);
};

// Buckets of durations from a millisecond to half a minute.
std::vector<double> SecondsBuckets();

}  // namespace longhaul::coordinator
