#include "worker/rank/rank_reporter.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/rpc/retry.h"
#include "common/wire/proto_values.h"
#include "google/protobuf/util/json_util.h"
#include "worker/agent/pool_supervisor.h"
#include "worker/agent/rank_report.h"

namespace longhaul {
namespace {

constexpr absl::Duration kProgressEach = absl::Milliseconds(200);
// A report is dropped if the agent does not read for so long.
constexpr absl::Duration kPatience = absl::Seconds(30);

int memory_descriptor = -1;
constexpr char kOutOfMemory[] =
    "{\"failure\": {\"code\": \"RESOURCE_EXHAUSTED\", \"message\": \"too little memory\", "
    "\"hint\": "
    "\"give this pool fewer ranks on a machine, or more memory\", \"faultClass\": "
    "\"SITE_FAULT\"}}\n";

void OnMemoryEnd() {
  // The line is shorter than PIPE_BUF, so it is written as a whole or not at all. Nothing here
  // allocates.
  (void)!write(memory_descriptor, kOutOfMemory, std::strlen(kOutOfMemory));
  _exit(kRankFailed);
}

void Fill(const InPoolBytes& bytes, v1::InPoolBytes* message) {
  message->set_pair(bytes.pair);
  message->set_node(bytes.node);
  message->set_pool(bytes.pool);
}

}  // namespace

void ReportWhenMemoryEnds(int descriptor) {
  memory_descriptor = descriptor;
  std::set_new_handler(OnMemoryEnd);
}

RankReporter::RankReporter(int descriptor, int64_t steps, const RankMonitor* monitor)
    : descriptor_(descriptor), steps_(steps), monitor_(monitor) {
  fcntl(descriptor_, F_SETFL, fcntl(descriptor_, F_GETFL) | O_NONBLOCK);
  fcntl(descriptor_, F_SETFD, FD_CLOEXEC);
  thread_ = std::jthread([this](const std::stop_token& stop) {
    while (!stop.stop_requested()) {
      WriteLine(ToLine(monitor_->Status()), /*may_drop=*/true);
      WaitUnlessStopped(kRankStatusEach, stop);
    }
  });
}

RankReporter::~RankReporter() = default;

void RankReporter::Write(const v1::HeartbeatRequest& report, bool may_drop) {
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(report, &line).ok()) return;
  line += '\n';
  WriteLine(line, may_drop);
}

void RankReporter::WriteLine(absl::string_view line, bool may_drop) {
  absl::MutexLock lock(&mutex_);
  const absl::Time deadline = SteadyTime() + kPatience;
  for (size_t done = 0; done < line.size();) {
    const ssize_t n = write(descriptor_, line.data() + done, line.size() - done);
    if (n > 0) {
      done += n;
      continue;
    }
    if (n < 0 && errno == EINTR) continue;
    // If the agent is gone, the system ends this process anyway.
    if (n == 0 || errno != EAGAIN || (may_drop && done == 0) || SteadyTime() >= deadline) return;
    pollfd entry = {descriptor_, POLLOUT, 0};
    (void)poll(&entry, 1, 100);
  }
}

void RankReporter::Progress(const session::Progress& progress) {
  const absl::Time now = SteadyTime();
  held_ = progress;
  if (now < next_ && progress.inner_step < steps_ && !progress.draining) return;
  next_ = now + kProgressEach;
  Flush();
}

void RankReporter::Flush() {
  if (!held_.has_value()) return;
  const session::Progress progress = *std::exchange(held_, std::nullopt);
  v1::HeartbeatRequest report;
  v1::PoolProgress* out = report.mutable_progress();
  out->set_inner_step(progress.inner_step);
  out->set_tokens(progress.tokens);
  out->set_train_loss(progress.train_loss);
  out->set_tokens_per_second(progress.tokens_per_second);
  out->set_compute_seconds(progress.compute_seconds);
  out->set_exposed_wait_seconds(progress.exposed_wait_seconds);
  out->set_eval_seconds(progress.eval_seconds);
  out->set_sync_seconds(progress.sync_seconds);
  out->set_uplink_nmse(progress.uplink_nmse);
  out->set_error_feedback_norm(progress.error_feedback_norm);
  Fill(progress.received.forward, out->mutable_forward());
  Fill(progress.received.backward, out->mutable_backward());
  Fill(progress.received.gradient, out->mutable_gradient());
  Fill(progress.received.refresh, out->mutable_refresh());
  out->set_weights_nmse(progress.weights_nmse);
  out->set_gradients_nmse(progress.gradients_nmse);
  out->set_skipped_steps(progress.skipped_steps);
  out->set_target_tokens(progress.target_tokens);
  out->set_learning_rate(progress.learning_rate);
  out->set_gradient_norm(progress.gradient_norm);
  out->set_tokens_per_second_with_evaluation(progress.tokens_per_second_with_evaluation);
  out->set_inner_state_taken_up_step(progress.inner_state.taken_up_step);
  out->set_inner_state_saved_step(progress.inner_state.saved_step);
  out->set_inner_state_losses(progress.inner_state.losses);
  out->set_inner_state_failures(progress.inner_state.failures);
  report.set_draining(progress.draining);
  report.set_merged(progress.merged);
  Write(report, /*may_drop=*/progress.inner_step < steps_ && !progress.draining);
}

void RankReporter::Evaluation(const session::EvaluationResult& result) {
  v1::HeartbeatRequest report;
  v1::Evaluation* out = report.add_evaluations();
  out->set_step(result.step);
  out->set_version(result.version);
  out->set_loss(result.loss);
  out->set_tokens(result.tokens);
  out->set_final(result.final);
  out->set_of_pool(result.of_pool);
  *out->mutable_metrics() = ToProto(result.metrics);
  Write(report, /*may_drop=*/false);
}

void RankReporter::Failure(const v1::JobError& fault) {
  v1::HeartbeatRequest report;
  *report.mutable_failure() = fault;
  Write(report, /*may_drop=*/false);
}

void ReportFault(int descriptor, const v1::JobError& fault) {
  v1::HeartbeatRequest report;
  *report.mutable_failure() = fault;
  std::string line;
  if (!google::protobuf::util::MessageToJsonString(report, &line).ok()) return;
  line += '\n';
  // The agent reads, and the line fits into the pipe.
  (void)!write(descriptor, line.data(), line.size());
}

}  // namespace longhaul
