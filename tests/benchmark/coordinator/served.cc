#include "tests/benchmark/coordinator/served.h"

#include <algorithm>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "tests/benchmark/coordinator/figures.h"

namespace longhaul::benchmark {
namespace {

std::ostream& Nowhere() {
  static std::ofstream* const stream = new std::ofstream("/dev/null");
  return *stream;
}

}  // namespace

absl::Time SkippingClock::Now() const {
  absl::MutexLock lock(&mutex_);
  return clock_->Now() + skipped_;
}

void SkippingClock::SleepUntil(absl::Time deadline) { absl::SleepFor(deadline - Now()); }

void SkippingClock::Skip(absl::Duration duration) {
  absl::MutexLock lock(&mutex_);
  skipped_ += duration;
}

Served::Served(std::string data_dir) : data_dir_(std::move(data_dir)) {}

void Served::Start() {
  coordinator::CoordinatorServerOptions options;
  options.data_dir = data_dir_;
  options.clock = &clock_;
  options.core.lease = absl::Hours(24);
  // Most of the jobs end before their state is touched, so that it takes no memory.
  options.core.memory = int64_t{1} << 40;
  options.log.stream = &Nowhere();
  options.on_fatal = [](const absl::Status& status) { OrEnd(status, "the coordinator halted"); };
  server_ = OrEnd(coordinator::CoordinatorServer::Start(std::move(options)), "start");
  jobs_ = v1::JobService::NewStub(MakeChannel({.address = server_->address()}));
}

void Served::Stop() {
  jobs_.reset();
  server_.reset();
}

std::string Served::Submit(const v1::JobSpec& spec) {
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  v1::SubmitJobResponse response;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  OrEnd(FromGrpcStatus(jobs_->SubmitJob(&context, request, &response)), "submit");
  return response.job().id();
}

void Served::Cancel(const std::string& id) {
  v1::CancelJobRequest request;
  request.set_job(id);
  v1::CancelJobResponse response;
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(30)));
  OrEnd(FromGrpcStatus(jobs_->CancelJob(&context, request, &response)), "cancel");
}

void Served::ForgetEnded() {
  clock_.Skip(absl::Seconds(61));
  absl::SleepFor(absl::Milliseconds(1600));
}

v1::JobSpec SpecOf(const std::string& name, int units, int64_t elements, int64_t steps,
                   v1::Codec codec, const std::vector<std::string>& pools) {
  v1::JobSpec spec;
  spec.set_name(name);
  spec.mutable_model()->mutable_synthetic()->set_units(units);
  spec.mutable_model()->mutable_synthetic()->set_elements(elements);
  spec.mutable_train()->set_steps(steps);
  v1::SyncSpec& sync = *spec.mutable_sync();
  sync.set_h(2);
  sync.set_tau(0);
  sync.set_final_round(false);
  sync.mutable_outer()->set_lr(1);
  sync.mutable_outer()->set_momentum(0);
  sync.mutable_up()->set_codec(codec);
  sync.mutable_down()->set_codec(codec);
  spec.mutable_checkpoint()->set_every_cycles(-1);
  const int count = std::max<int>(1, static_cast<int>(pools.size()));
  spec.mutable_pools()->set_min(count);
  spec.mutable_pools()->set_max(count);
  for (const std::string& pool : pools) spec.mutable_pools()->add_names(pool);
  return spec;
}

}  // namespace longhaul::benchmark
