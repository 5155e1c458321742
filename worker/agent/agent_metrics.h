// The metrics that a worker shows on its HTTP port: how its pool trains (on the node of rank 0),
// how the ranks of this node are, and whether the coordinator answers. Labels: job_name, pool; rank
// (its number in the pool).
#pragma once

#include <sys/types.h>

#include <functional>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/http/pages.h"
#include "common/metrics/pool_metrics.h"
#include "common/metrics/registry.h"
#include "common/metrics/shown_series.h"
#include "common/rpc/tls.h"
#include "common/rpc/user_tokens.h"
#include "worker/agent/rank_report.h"

namespace longhaul {

// Used by the agent's main thread, except Ready and the pages of AddPages.
class AgentMetrics {
 public:
  AgentMetrics();

  // Adds /metrics, /healthz, /readyz. The object outlives the server.
  void AddPages(Pages& pages);

  // Shows when the certificate ends, and whether its files can be used. Called before the pages are
  // served.
  void WatchTls(std::shared_ptr<const Tls> tls);
  // Shows whether the file of tokens can be used. As above; `tokens` outlives the pages.
  void WatchTokens(Tokens* tokens);

  // Makes Ready, and a series, say what stands still. `stands`: in words, or empty; `slowest`: how
  // long the oldest operation of a disk has not returned. Both are called on any thread. Called
  // before the pages are served.
  void WatchDisk(std::function<std::string()> stands, std::function<absl::Duration()> slowest);

  // `now` is of SteadyTime. `lease`: the lease that the coordinator granted.
  void CoordinatorAnswered(absl::Time now, absl::Duration lease) ABSL_LOCKS_EXCLUDED(mutex_);
  void RanksStarted(int ranks);
  void RankReported(int rank, pid_t pid, const RankStatus& status);
  // `code`: RankExit, or 128 + signal. With the last one the ranks' series end.
  void RankExited(int code);
  // Ends the series of these ranks.
  void RanksEnded();
  void Rejoined();
  // Shows the progress, and ends series of another job. `now` is of SteadyTime, here and below.
  void Progressed(const std::string& job, const v1::PoolProgress& progress, absl::Time now);
  // Ends the series of a job on which no rank has worked for a minute. Called often.
  void Tick(absl::Time now);

  // UNAVAILABLE: the agent, or an operation of its disk, stands still; or the coordinator has not
  // answered for longer than its lease, so it considers the pool lost. `now` is of SteadyTime.
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
  CounterFamily& rank_damaged_pulls_;
  PoolMetrics pool_;
  std::function<std::string()> stands_;
  ShownSeries shown_ranks_, shown_pool_;
  // The job of shown_pool_, and when it was shown last.
  std::string job_;
  absl::Time progressed_;

  mutable absl::Mutex mutex_;
  absl::Time answered_ ABSL_GUARDED_BY(mutex_) = absl::InfinitePast();
  absl::Duration lease_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul
