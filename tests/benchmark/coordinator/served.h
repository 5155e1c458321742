// A coordinator in this process, on real files and real gRPC at a free port.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/config/job_spec.h"
#include "coordinator/server/server.h"
#include "longhaul/v1/job.grpc.pb.h"

namespace longhaul::benchmark {

// The machine's time, from which a benchmark may skip what only waits: an ended job's last minute.
// Thread-safe.
class SkippingClock : public Clock {
 public:
  absl::Time Now() const override;
  void SleepUntil(absl::Time deadline) override;
  void Skip(absl::Duration duration);

 private:
  const std::unique_ptr<Clock> clock_ = MakeSystemClock();
  mutable absl::Mutex mutex_;
  absl::Duration skipped_ ABSL_GUARDED_BY(mutex_);
};

// Leases hold through what is skipped. Ends the process where something fails. Thread-safe once
// started.
class Served {
 public:
  explicit Served(std::string data_dir);
  // Blocks until it serves, as CoordinatorServer::Start does.
  void Start();
  void Stop();

  const std::string& address() const { return server_->address(); }
  // The id of the new job.
  std::string Submit(const v1::JobSpec& spec);
  void Cancel(const std::string& id);
  // Lets the coordinator forget the jobs that have ended. Blocks for more than a second.
  void ForgetEnded();
  SkippingClock& clock() { return clock_; }

 private:
  const std::string data_dir_;
  SkippingClock clock_;
  std::unique_ptr<coordinator::CoordinatorServer> server_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
};

// A job of `units` fragments of so many elements, for these pools alone, or for any one pool.
// Exchanges every fragment once each 2 steps; plain averages; no final round.
v1::JobSpec SpecOf(const std::string& name, int units, int64_t elements, int64_t steps,
                   v1::Codec codec, const std::vector<std::string>& pools);

}  // namespace longhaul::benchmark
