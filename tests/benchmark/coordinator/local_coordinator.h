// The coordinator's performer, fragments and stores on real files, without threads and gRPC: what
// it would do on other threads is done when it is asked to, so that each step can be timed alone.
#pragma once

#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "common/config/job_spec.h"
#include "common/io/filesystem.h"
#include "common/logging/logging.h"
#include "common/metrics/registry.h"
#include "coordinator/effects/metrics.h"
#include "coordinator/effects/performer.h"
#include "coordinator/fragments/arbiter.h"
#include "coordinator/fragments/fragments.h"
#include "coordinator/fragments/metrics.h"
#include "coordinator/service/job_watchers.h"
#include "coordinator/service/plan_streams.h"
#include "coordinator/service/stream_publisher.h"
#include "coordinator/store/meta_store.h"
#include "tests/testing/hand_crank.h"

namespace longhaul::benchmark {

// Ends the process where something fails. Each job has one pool, and one fragment of fp32.
// Externally synchronised.
class LocalCoordinator : private coordinator::Arbiter {
 public:
  // Makes the folder's files.
  explicit LocalCoordinator(const std::string& data_dir);

  struct LiveJob {
    std::string id, pool;
    int64_t version = 0;
  };
  // A job that runs, with a pool of its own, seeded.
  LiveJob Begin(const std::string& name, const std::string& pool, int64_t steps);
  // A job from its submission to its end, and the time until it is forgotten.
  void RunToEnd(const std::string& name, const std::string& pool);

  // Seconds that the owner thread is at work for this.
  double Step(const coordinator::Event& event);
  double Tick();
  // Seconds of the steps of one round, without the log and the arithmetic.
  double Round(LiveJob& job);

 private:
  absl::Status Judge(const coordinator::ContributionId& contribution) const override;
  absl::Status CheckReader(const std::string& job, const std::string& pool,
                           const std::string& incarnation) const override;
  std::set<int64_t> InitialSteps(const std::string&) const override { return {}; }
  absl::Status Complete(const coordinator::ContributionId& contribution) override;
  void ReportStoreFailure(const std::string& job, const absl::Status& status) override;

  // All that waits, and what comes of it.
  void RunAll();
  void Push(LiveJob& job, RoundKind kind);

  std::ostringstream ignored_;
  const Logger log_;
  MetricRegistry registry_;
  coordinator::EffectMetrics effect_metrics_{registry_};
  coordinator::FragmentMetrics fragment_metrics_{registry_};
  const std::unique_ptr<FileSystem> fs_;
  const std::unique_ptr<MetaStore> meta_;
  coordinator::PlanStreams plan_streams_;
  coordinator::JobWatchers watchers_;
  coordinator::StreamPublisher publisher_{&plan_streams_, &watchers_};
  absl::Time now_ = absl::FromUnixSeconds(1700000000);
  HandCrank owner_, apply_, background_;
  coordinator::Fragments fragments_;
  std::unique_ptr<coordinator::Performer> performer_;
  // Of the steps since it was set to zero.
  double step_seconds_ = 0;
};

}  // namespace longhaul::benchmark
