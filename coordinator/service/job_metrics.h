// Metrics of jobs that need the whole report of a job.
#pragma once

#include <string>

#include "common/metrics/pool_metrics.h"
#include "common/metrics/registry.h"
#include "common/metrics/shown_series.h"
#include "coordinator/effects/control_plane.h"

namespace longhaul::coordinator {

// Owner thread.
class JobMetrics {
 public:
  explicit JobMetrics(MetricRegistry& registry);
  // Sets the metrics of the jobs that there are, and ends the series of jobs that are gone.
  void Show(const ControlPlane& control);

 private:
  void ShowJob(const std::string& job, const v1::Job& report, const JobView& view, absl::Time now);

  // job_name
  GaugeFamily& inner_step_;
  GaugeFamily& steps_;
  CounterFamily& tokens_;
  CounterFamily& contributed_tokens_;
  GaugeFamily& utilization_;
  GaugeFamily& waiting_seconds_;
  // job_name, state
  GaugeFamily& state_;
  GaugeFamily& pools_;
  // job_name, code, level
  GaugeFamily& findings_;
  // job_name, term
  GaugeFamily& forecast_;
  GaugeFamily& measured_;
  // job_name, pool
  CounterFamily& late_rounds_;
  CounterFamily& left_out_rounds_;
  PoolMetrics pool_;
  ShownSeries shown_;
};

}  // namespace longhaul::coordinator
