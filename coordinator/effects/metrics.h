// The metrics of jobs, pools and rounds. The label `job_name` is the name of a live job; its series
// end with it. The labels `state` and `kind` have values from fixed lists.
#pragma once

#include <string>

#include "absl/time/time.h"
#include "common/metrics/registry.h"
#include "coordinator/store/round_records.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

struct EffectMetrics {
  explicit EffectMetrics(MetricRegistry& registry);

  GaugeFamily& live_pools;
  // state
  GaugeFamily& jobs;
  // by
  CounterFamily& deleted_jobs;
  GaugeFamily& pools;
  HistogramFamily& commit_seconds;
  // job_name, kind
  CounterFamily& rounds;
  // job_name
  GaugeFamily& last_commit;
  GaugeFamily& eval_loss;
  // job_name, metric, over
  GaugeFamily& eval_metric;
  // job_name, fragment
  GaugeFamily& outer_gradient_norm;
  GaugeFamily& outer_gradient_cosine;
  GaugeFamily& outer_parameter_norm;
  GaugeFamily& downlink_nmse;

  // Counts a commit that is published now, and shows it.
  void Published(const std::string& job, const CommitRecord& commit, absl::Time now);
  // Shows the newest commit of a fragment.
  void Show(const std::string& job, const CommitRecord& commit);
  // Shows the newest evaluation of the outer parameters. Nothing if there was none.
  void Show(const std::string& job, const v1::EvalLoss& evaluation);
  void ShowLastCommit(const std::string& job, absl::Time at);
  // Ends the series of a job.
  void RemoveJob(const std::string& job);
};

}  // namespace longhaul::coordinator
