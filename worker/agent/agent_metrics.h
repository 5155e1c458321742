// What a worker shows on its HTTP port: how its pool trains (where rank 0 is on this node), how the ranks of
// this node are, whether the coordinator answers. Labels: job_name, pool; rank (its number in the
// pool).
#pragma once

#include <sys/types.h>

#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http/pages.h"
#include "common/metrics/pool_metrics.h"
#include "common/metrics/registry.h"
#include "common/metrics/shown_series.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

// Used by the agent's main thread, but for Ready and what AddPages added.
class AgentMetrics {
 public:
  AgentMetrics();

  // /metrics, /healthz, /readyz. The object outlives the server.
  void AddPages(Pages& pages);

  void CoordinatorAnswered(absl::Time now) ABSL_LOCKS_EXCLUDED(mutex_);
  void RanksStarted(int ranks);
  void RankReported(int rank, pid_t pid, const RankStatus& status);
  // `code`: RankExit, or 128 + signal.
  void RankExited(int code);
  // The series of these ranks end.
  void RanksEnded();
  void Rejoined();
  // Those of another job end.
  void Progressed(const std::string& job, const v1::PoolProgress& progress);

  // UNAVAILABLE: the coordinator has not answered for 10 s.
  absl::Status Ready(absl::Time now) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  MetricRegistry registry_;
  GaugeFamily& last_answer_;
  GaugeFamily& ranks_;
  CounterFamily& starts_;
  // reason
  CounterFamily& exits_;
  CounterFamily& rejoins_;
  // rank
  GaugeFamily& rank_step_;
  GaugeFamily& rank_waits_;
  GaugeFamily& rank_memory_;
  CounterFamily& rank_cpu_;
  PoolMetrics pool_;
  ShownSeries shown_ranks_, shown_pool_;
  std::string job_;  // Of shown_pool_.

  mutable absl::Mutex mutex_;
  absl::Time answered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
};

}  // namespace longhaul
