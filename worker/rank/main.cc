// longhaul-rank: trains one rank of a pool. Started by longhaul-worker alone, which writes the
// assignment (proto JSON) to its standard input and reads its reports from descriptor
// kReportDescriptor.
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>

#include "CLI/CLI.hpp"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/mutex_checks.h"
#include "common/codec/cuda/cuda_codec_module.h"
#include "common/logging/logging.h"
#include "common/rpc/allocator.h"
#include "common/rpc/protobuf_log.h"
#include "common/rpc/tls.h"
#include "google/protobuf/util/json_util.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/rank_process.h"
#include "worker/rank/assignment.h"
#include "worker/rank/pool_communicator.h"
#include "worker/rank/replica_factory.h"
#include "worker/session/rank_session.h"

namespace longhaul {
namespace {

struct Arguments {
  std::string coordinator, pool, incarnation, data_dir, log_level = "info";
  int rank = 0, ranks = 1, threads = 1, bulk_channels = 1;
  std::string rendezvous;  // host:port of the agent's; empty with one rank.
  double push_bytes_per_second = 0;
  uint64_t generation = 0;
  TlsFiles tls_files;
};

// Writes reports to the agent. An agent that is gone ends this process anyway.
class Reporter {
 public:
  explicit Reporter(int64_t steps) : steps_(steps) {}
  void Write(const v1::HeartbeatRequest& report) {
    std::string line;
    if (!google::protobuf::util::MessageToJsonString(report, &line).ok()) return;
    line += '\n';
    for (size_t done = 0; done < line.size();) {
      const ssize_t n = write(kReportDescriptor, line.data() + done, line.size() - done);
      if (n <= 0) return;
      done += n;
    }
  }
  void Progress(const session::Progress& progress) {
    const absl::Time now = absl::Now();
    if (now < next_ && progress.inner_step < steps_) return;
    next_ = now + absl::Milliseconds(200);
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
    Write(report);
  }
  void Evaluation(const session::EvaluationResult& result) {
    v1::HeartbeatRequest report;
    v1::Evaluation* out = report.add_evaluations();
    out->set_step(result.step);
    out->set_version(result.version);
    out->set_loss(result.loss);
    out->set_tokens(result.tokens);
    out->set_final(result.final);
    Write(report);
  }
  void Failure(const v1::JobError& fault) {
    v1::HeartbeatRequest report;
    *report.mutable_failure() = fault;
    Write(report);
  }

 private:
  const int64_t steps_;
  absl::Time next_ = absl::InfinitePast();
};

absl::StatusOr<v1::Assignment> ReadAssignment() {
  return ParseAssignment(
      std::string{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
}

// What an outcome means to the agent: a lost peer or coordinator is no fault of the job.
int ExitCode(const session::Outcome& outcome, const v1::JobSpec& spec, const Logger& log,
             Reporter& reporter) {
  switch (outcome.kind) {
    case session::Outcome::Kind::kFinished:
      log.Info(absl::StrCat("finished: ", outcome.reason));
      return kRankFinished;
    case session::Outcome::Kind::kRestart:
      log.Warning(absl::StrCat("cannot go on: ", outcome.reason));
      return kRankRestart;
    case session::Outcome::Kind::kFailed:
      break;
  }
  log.Error(absl::StrCat("training failed ", outcome.reason, ": ", outcome.status.ToString()));
  if (absl::IsUnavailable(outcome.status) || absl::IsDeadlineExceeded(outcome.status))
    return kRankRestart;
  reporter.Failure(DescribeFault(spec, outcome.status));
  return kRankFailed;
}

// The codec of the device that trains; null: the host codes.
std::shared_ptr<DeviceCodec> DeviceCodecOf(const Replica& replica, int device, const Logger& log) {
  if (replica.DeviceParameters(0) == nullptr) return nullptr;
  absl::StatusOr<std::shared_ptr<DeviceCodec>> codec = LoadCudaCodec({.device = device});
  if (codec.ok()) return *std::move(codec);
  log.Warning(absl::StrCat("contributions are coded on the host: ", codec.status().ToString()));
  return nullptr;
}

int RunRank(const Arguments& arguments, const Logger& log) {
  SendProtobufLogTo(log);
  const absl::StatusOr<v1::Assignment> assignment = ReadAssignment();
  if (!assignment.ok()) {
    log.Error(assignment.status().ToString());
    return 1;
  }
  const absl::StatusOr<std::shared_ptr<const Tls>> tls = LoadTlsIfGiven(arguments.tls_files);
  if (!tls.ok()) {
    log.Error(tls.status().ToString());
    return kRankRestart;
  }
  const v1::JobSpec& spec = assignment->spec();
  Reporter reporter(spec.train().steps());
  absl::StatusOr<PoolCommunicator> communicator =
      MakePoolCommunicator({.rank = arguments.rank,
                            .ranks = arguments.ranks,
                            .rendezvous = arguments.rendezvous,
                            .generation = arguments.generation,
                            .device = spec.train().device()});
  if (!communicator.ok()) {
    log.Error(absl::StrCat("connecting the pool's ranks: ", communicator.status().ToString()));
    return kRankRestart;
  }
  auto replica = MakeReplica({.spec = spec,
                              .ordinal = assignment->ordinal(),
                              .local_rank = arguments.rank,
                              .threads = arguments.threads,
                              .data_dir = arguments.data_dir,
                              .communicator = communicator->get(),
                              .communicator_on_device = communicator->on_device});
  if (!replica.ok()) {
    return ExitCode({session::Outcome::Kind::kFailed, replica.status(), "while it was prepared"},
                    spec, log, reporter);
  }
  session::SessionObserver observer;
  if (arguments.rank == 0) {
    observer.on_progress = [&](const session::Progress& progress) { reporter.Progress(progress); };
    observer.on_evaluation = [&](const session::EvaluationResult& result) {
      reporter.Evaluation(result);
    };
  }
  session::RankSession session({.coordinator = arguments.coordinator,
                                .job = assignment->job_id(),
                                .pool = arguments.pool,
                                .incarnation = arguments.incarnation,
                                .tls = *tls,
                                .bulk_channels = arguments.bulk_channels,
                                .push_bytes_per_second = arguments.push_bytes_per_second,
                                .device_codec = DeviceCodecOf(**replica, arguments.rank, log),
                                .log = log,
                                .observer = observer},
                               replica->get());
  return ExitCode(session.Run(), spec, log, reporter);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // No rank outlives its agent.
  signal(SIGPIPE, SIG_IGN);
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  longhaul::Arguments arguments;
  CLI::App app{"One rank of a pool; started by longhaul-worker."};
  app.add_option("--coordinator", arguments.coordinator)->required();
  app.add_option("--pool", arguments.pool)->required();
  app.add_option("--incarnation", arguments.incarnation)->required();
  app.add_option("--rank", arguments.rank);
  app.add_option("--ranks", arguments.ranks);
  app.add_option("--threads", arguments.threads);
  app.add_option("--bulk-channels", arguments.bulk_channels);
  app.add_option("--push-bytes-per-second", arguments.push_bytes_per_second);
  app.add_option("--data-dir", arguments.data_dir);
  app.add_option("--rendezvous", arguments.rendezvous);
  app.add_option("--generation", arguments.generation);
  app.add_option("--tls-ca", arguments.tls_files.ca);
  app.add_option("--tls-certificate", arguments.tls_files.certificate);
  app.add_option("--tls-key", arguments.tls_files.key);
  app.add_option("--log-level", arguments.log_level);
  CLI11_PARSE(app, argc, argv);
  if (getppid() == 1) return 1;  // The agent ended before the line above took effect.
  const auto level = longhaul::ParseLogLevel(arguments.log_level);
  return longhaul::RunRank(arguments,
                           longhaul::Logger({.program = "longhaul-rank",
                                             .level = level.value_or(longhaul::LogLevel::kInfo)}));
}
