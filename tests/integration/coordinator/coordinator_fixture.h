// A coordinator in the test's own process, on real files and with real gRPC at a free port, and a
// stub of its JobService.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_conversion.h"
#include "common/rpc/status_details.h"
#include "coordinator/server/server.h"
#include "tests/integration/coordinator/hand_pool.h"
#include "tests/testing/temp_dir.h"

namespace longhaul {

// For each fragment: three blocks, the last one short.
inline constexpr int64_t kElements = 300;

class CoordinatorFixture : public ::testing::Test {
 protected:
  void SetUp() override { Start(); }

  virtual coordinator::CoordinatorServerOptions Options() {
    coordinator::CoordinatorServerOptions options;
    options.data_dir = data_.path();
    options.clock = &clock_;
    options.log.stream = &log_;
    options.on_fatal = [](const absl::Status& status) { ADD_FAILURE() << status; };
    return options;
  }
  void Start() {
    coordinator::CoordinatorServerOptions options = Options();
    auto server = coordinator::CoordinatorServer::Start(std::move(options));
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
    jobs_ = v1::JobService::NewStub(MakeChannel({.address = server_->address()}));
  }
  // Restarts the coordinator, like a restart of its process.
  void Restart() {
    server_.reset();
    Start();
  }
  // Waits until a restarted coordinator has opened the job's store.
  absl::StatusOr<v1::Job> AwaitOpen(const std::string& name) {
    const absl::Time deadline = absl::Now() + kCallTimeout;
    while (absl::Now() < deadline) {
      absl::StatusOr<v1::Job> job = Get(name);
      if (!job.ok()) return job;
      // It shows no fragments until its store is open.
      if (job->fragments_size() > 0 && !job->fragments(0).digest().empty()) return job;
      absl::SleepFor(absl::Milliseconds(5));
    }
    return absl::DeadlineExceededError("the job's store is not open");
  }
  const std::string& address() const { return server_->address(); }

  // Two fragments of kElements, exchanged every 2 of 4 steps; plain averages; exact codecs.
  static v1::JobSpec Spec(const std::string& name, int pools = 2) {
    v1::JobSpec spec;
    spec.set_name(name);
    spec.mutable_model()->mutable_synthetic()->set_units(2);
    spec.mutable_model()->mutable_synthetic()->set_elements(kElements);
    spec.mutable_train()->set_steps(4);
    spec.mutable_sync()->set_h(2);
    spec.mutable_sync()->set_tau(1);
    spec.mutable_sync()->mutable_outer()->set_lr(1);
    spec.mutable_sync()->mutable_outer()->set_momentum(0);
    spec.mutable_sync()->mutable_up()->set_codec(v1::FP32);
    spec.mutable_sync()->mutable_down()->set_codec(v1::FP32);
    spec.mutable_pools()->set_min(pools);
    spec.mutable_pools()->set_max(pools);
    return spec;
  }
  // For one pool. It names the data of so many others: 4 KB each.
  static v1::JobSpec LargeSpec(const std::string& name, int others) {
    v1::JobSpec spec = Spec(name, 1);
    v1::TransformerSpec& shape = *spec.mutable_model()->mutable_transformer();
    shape.set_layers(1);
    shape.set_dim(32);
    shape.set_heads(2);
    shape.set_ff_dim(64);
    shape.set_context(32);
    spec.mutable_train()->set_batch(1);
    spec.mutable_data()->mutable_text()->set_path("x");
    for (int i = 0; i < others; ++i) {
      v1::PoolData* const data = spec.mutable_data()->add_pools();
      data->set_pool(absl::StrCat("p", i));
      data->mutable_text()->set_path(std::string(4000, 'x'));
    }
    return spec;
  }

  absl::StatusOr<v1::SubmitJobResponse> Submit(const v1::SubmitJobRequest& request) {
    v1::SubmitJobResponse response;
    return Finished(jobs_->SubmitJob(Context().get(), request, &response), response);
  }
  absl::StatusOr<v1::SubmitJobResponse> Submit(const v1::JobSpec& spec) {
    v1::SubmitJobRequest request;
    *request.mutable_spec() = spec;
    return Submit(request);
  }
  absl::StatusOr<v1::Job> Get(const std::string& job) {
    v1::GetJobRequest request;
    request.set_job(job);
    v1::GetJobResponse response;
    auto result = Finished(jobs_->GetJob(Context().get(), request, &response), response);
    if (!result.ok()) return result.status();
    return result->job();
  }
  // Watches until the job is in this state.
  absl::StatusOr<v1::Job> Await(const std::string& job, v1::JobState state) {
    v1::WatchJobRequest request;
    request.set_job(job);
    const auto context = Context();
    const auto reader = jobs_->WatchJob(context.get(), request);
    v1::WatchJobResponse response;
    while (reader->Read(&response)) {
      if (response.job().state() != state) continue;
      context->TryCancel();
      (void)reader->Finish();
      return response.job();
    }
    const absl::Status status = FromGrpcStatus(reader->Finish());
    return status.ok() ? absl::OutOfRangeError(v1::JobState_Name(response.job().state())) : status;
  }

  // A new context with a deadline. It lives until the next one.
  std::shared_ptr<grpc::ClientContext> Context() {
    context_ = std::make_shared<grpc::ClientContext>();
    context_->set_deadline(absl::ToChronoTime(absl::Now() + kCallTimeout));
    return context_;
  }
  template <typename Response>
  static absl::StatusOr<Response> Finished(const grpc::Status& status, const Response& response) {
    if (!status.ok()) return FromGrpcStatus(status);
    return response;
  }

  // The reason that a status has for programs.
  static std::string ReasonOf(const absl::Status& status) {
    const auto detail = ErrorInfoOf(status);
    return detail.has_value() ? detail->reason : "";
  }

  TempDir data_;
  // Keeps the log out of the test's output.
  std::ostringstream log_;
  // Leases end only when a test says so.
  ManualClock clock_{absl::FromUnixSeconds(1700000000)};
  std::unique_ptr<coordinator::CoordinatorServer> server_;
  std::unique_ptr<v1::JobService::Stub> jobs_;
  std::shared_ptr<grpc::ClientContext> context_;
};

}  // namespace longhaul
