// longhaul-rank: trains one rank of a pool. Started by longhaul-worker alone, which writes the
// assignment (proto JSON) to its standard input and reads its reports from descriptor
// kReportDescriptor.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/exit_code.h"
#include "common/base/mutex_checks.h"
#include "common/base/thread_team.h"
#include "common/codec/cuda/cuda_codec_module.h"
#include "common/command_line/help_page.h"
#include "common/command_line/usage_fault.h"
#include "common/io/digest.h"
#include "common/logging/logging.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "common/rpc/tls.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/rank_process.h"
#include "worker/cores/processor_list.h"
#include "worker/kernels/gemm_bf16.h"
#include "worker/rank/assignment.h"
#include "worker/rank/capabilities.h"
#include "worker/rank/fault.h"
#include "worker/rank/pool_communicator.h"
#include "worker/rank/rank_end.h"
#include "worker/rank/rank_monitor.h"
#include "worker/rank/rank_reporter.h"
#include "worker/rank/replica_factory.h"
#include "worker/rank/watched_communicator.h"
#include "worker/rank/watched_replica.h"
#include "worker/session/rank_session.h"

namespace longhaul {
namespace {

struct Arguments {
  std::string coordinator, pool, incarnation, data_dir, work_dir, log_level = "info",
                                                                  log_format = "auto";
  int rank = 0, local_rank = 0, ranks = 1, threads = 1, bulk_channels = 1;
  std::vector<int> ranks_of_node;
  // The processors that the rank is bound to, as 0-3,8. Empty: any.
  std::string cpus;
  // File of measured rates. Empty: none.
  std::string update_rates;
  // Folder of inner state. Empty: none.
  std::string state_dir;
  // Seconds.
  double state_every = 60;
  // File for a timeline. Empty: none.
  std::string trace;
  // host:port. Empty with one rank.
  std::string rendezvous;
  // Of this machine.
  std::string in_pool_address = "127.0.0.1";
  // The name in node 0's certificate. Empty: the rendezvous has no TLS.
  std::string in_pool_name;
  double push_bytes_per_second = 0;
  uint64_t generation = 0;
  TlsFiles tls_files;
  // The process that started this one. 0: not known.
  pid_t agent = 0;
  double drain_seconds = 30, progress_timeout = 60, progress_factor = 20;
};

absl::StatusOr<v1::Assignment> ReadAssignment() {
  return ParseAssignment(
      std::string{std::istreambuf_iterator<char>(std::cin), std::istreambuf_iterator<char>()});
}

// Handles SIGTERM, and SIGINT, which a terminal sends to every process. The rank finishes its
// current step and sends its contributions, within most of the time that the agent gives it. The
// object and its thread live as long as the process.
class DrainOnSignal {
 public:
  DrainOnSignal(const sigset_t& signals, absl::Duration patience, Logger log) {
    std::thread([this, signals, patience, log] {
      int signal;
      sigwait(&signals, &signal);
      log.Info("asked to stop");
      {
        absl::MutexLock lock(&mutex_);
        // The rank has not trained yet.
        if (session_ == nullptr) _exit(kRankFinished);
        session_->Drain();
      }
      absl::SleepFor(patience);
      absl::MutexLock lock(&mutex_);
      if (session_ != nullptr) session_->Stop("the time for its last transfers is over");
    }).detach();
  }
  // `session` is null when it is about to end.
  void SetSession(session::RankSession* session) {
    absl::MutexLock lock(&mutex_);
    session_ = session;
  }

 private:
  absl::Mutex mutex_;
  session::RankSession* session_ ABSL_GUARDED_BY(mutex_) = nullptr;
};

// The inner steps between two evaluations of the outer parameters: at least those of a cycle.
int64_t StepsBetweenEvaluations(const v1::JobSpec& spec) {
  return spec.sync().h() * std::max<int64_t>(1, spec.evaluation().every_cycles());
}

// Saved inner state is used if it is at most so many rounds of a fragment old, or so many steps if
// that is more.
constexpr int64_t kStateRoundsMax = 10, kStateStepsMax = 1000;

// All ranks of a pool compute the same digest.
std::string SpecDigest(const v1::JobSpec& spec) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream coded(&stream);
  coded.SetSerializationDeterministic(true);
  spec.SerializeToCodedStream(&coded);
  coded.Trim();
  return DigestOf(bytes).Hex();
}

StateKeeper::Options InnerStateOf(const Arguments& arguments, const v1::JobSpec& spec) {
  return {.folder = arguments.state_dir,
          .owner = {.spec = SpecDigest(spec)},
          .every = absl::Seconds(arguments.state_every),
          .age_max = std::max(kStateStepsMax, kStateRoundsMax * spec.sync().h()),
          .first_of_node = arguments.local_rank == 0};
}

// Reports a fault of the site or the job to the agent.
int EndWith(const RankEnd& end, const absl::Status& status, const std::string& reason,
            const Logger& log, RankReporter& reporter) {
  if (end.fault.has_value()) {
    log.Error(absl::StrCat(v1::FaultClass_Name(end.fault->fault_class()), " ", reason, ": ",
                           status.ToString(absl::StatusToStringMode::kWithNoExtraData)));
  }
  if (end.code == kRankFailed) reporter.Failure(*end.fault);
  return end.code;
}

int EndWith(const session::Outcome& outcome, const v1::JobSpec& spec, const Logger& log,
            RankReporter& reporter) {
  using Kind = session::Outcome::Kind;
  if (outcome.kind == Kind::kFinished) log.Info(absl::StrCat("finished: ", outcome.reason));
  if (outcome.kind == Kind::kRestart) log.Warning(absl::StrCat("cannot go on: ", outcome.reason));
  return EndWith(EndOf(outcome, spec), outcome.status, outcome.reason, log, reporter);
}

// The codec of the device that trains. Null: the host codes.
std::shared_ptr<DeviceCodec> DeviceCodecOf(const v1::JobSpec& spec, int device, const Logger& log) {
  if (spec.train().device() != v1::CUDA) return nullptr;
  absl::StatusOr<std::shared_ptr<DeviceCodec>> codec = LoadCudaCodec({.device = device});
  if (codec.ok()) return *std::move(codec);
  log.Warning(absl::StrCat("contributions are coded on the host: ",
                           codec.status().ToString(absl::StatusToStringMode::kWithNoExtraData)));
  return nullptr;
}

int RunRank(const Arguments& arguments, const sigset_t& signals, const Logger& of_rank) {
  // Before threads and memory exist: threads inherit the binding, and pages lie on the node that
  // touches them first.
  if (const absl::Status bound = BindToProcessors(arguments.cpus); !bound.ok())
    of_rank.Warning(absl::StrCat("not bound to its cores: ", bound.message()));
  SendProtobufLogTo(of_rank);
  SendGrpcLogTo(of_rank);
  ReportWhenMemoryEnds(kReportDescriptor);
  auto& drain = *new DrainOnSignal(signals, absl::Seconds(0.9 * arguments.drain_seconds), of_rank);
  RankMonitor monitor(
      {.at_least = absl::Seconds(arguments.progress_timeout), .factor = arguments.progress_factor});
  const absl::StatusOr<v1::Assignment> assignment = ReadAssignment();
  const v1::JobSpec spec = assignment.ok() ? assignment->spec() : v1::JobSpec();
  const Logger log = of_rank.With(
      {.job = spec.name(), .job_id = assignment.ok() ? assignment->job_id() : std::string()});
  RankReporter reporter(kReportDescriptor, spec.train().steps(), &monitor);
  const auto end = [&](FaultPlace place, const absl::Status& status, const std::string& reason) {
    return EndWith(EndOf(place, spec, status), status, reason, log, reporter);
  };
  if (!assignment.ok()) {
    return end(FaultPlace::kAssignment, assignment.status(), "while the assignment was read");
  }
  const absl::StatusOr<std::shared_ptr<const Tls>> tls = LoadTlsIfGiven(arguments.tls_files);
  if (!tls.ok()) {
    log.Error(tls.status().ToString(absl::StatusToStringMode::kWithNoExtraData));
    return kRankRestart;
  }
  const absl::Status able = CheckCapabilities(spec, spec.train().device());
  if (!able.ok()) return end(FaultPlace::kCapabilities, able, "before anything was begun");
  const auto team = std::make_shared<ThreadTeam>(arguments.threads);
  absl::StatusOr<PoolCommunicator> communicator =
      MakePoolCommunicator({.rank = arguments.rank,
                            .ranks = arguments.ranks,
                            .local_rank = arguments.local_rank,
                            .rendezvous = arguments.rendezvous,
                            .tls = arguments.in_pool_name.empty() ? nullptr : *tls,
                            .tls_name = arguments.in_pool_name,
                            .generation = arguments.generation,
                            .address = arguments.in_pool_address,
                            .device = spec.train().device(),
                            .team = team.get()});
  if (!communicator.ok()) {
    return end(FaultPlace::kMeeting, communicator.status(), "while the pool's ranks met");
  }
  WatchedCommunicator watched(communicator->get(), &monitor);
  auto made = MakeReplica({.spec = spec,
                           .ordinal = assignment->ordinal(),
                           .local_rank = arguments.local_rank,
                           .threads = arguments.threads,
                           .team = team,
                           .pool = arguments.pool,
                           .data_dir = arguments.data_dir,
                           .work_dir = arguments.work_dir,
                           .on_wait = [&](const std::string& what) { monitor.WaitsFor(what); },
                           .on_warning =
                               [&](const std::string& warning) {
                                 if (arguments.rank == 0) log.Warning(warning);
                               },
                           .communicator = communicator->get() == nullptr ? nullptr : &watched,
                           .communicator_on_device = communicator->on_device,
                           .ranks_of_node = arguments.ranks_of_node,
                           .update_rates_path = arguments.update_rates,
                           .trace_path = arguments.trace,
                           .collective_timeout = monitor.CollectiveTimeout()});
  if (!made.ok()) {
    return end(FaultPlace::kPreparation, made.status(), "while the model was prepared");
  }
  if (const std::string line = (*made)->Describe(); arguments.rank == 0 && !line.empty())
    log.Info(line);
  if (const std::string slow = SlowComputing(spec, kernels::HasFastBf16()); !slow.empty())
    log.Warning(slow);
  WatchedReplica replica(made->get(), &monitor, spec.evaluation().batches());
  session::SessionObserver observer;
  observer.on_wait = [&](const std::string& what) { monitor.WaitsFor(what); };
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
                                .evaluation_steps_max = StepsBetweenEvaluations(spec),
                                .device_codec = DeviceCodecOf(spec, arguments.local_rank, log),
                                .team = team.get(),
                                .inner_state = InnerStateOf(arguments, spec),
                                .log = log,
                                .observer = observer},
                               &replica);
  drain.SetSession(&session);
  const session::Outcome outcome = session.Run();
  drain.SetSession(nullptr);
  reporter.Flush();
  return EndWith(outcome, spec, log, reporter);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  // The system ends the rank when its agent ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Before any other thread exists, since threads inherit it.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  longhaul::Arguments arguments;
  CLI::App app{"One rank of a pool; started by longhaul-worker.", "longhaul-rank"};
  longhaul::SetHelpPage(app);
  app.add_option("--coordinator", arguments.coordinator)->required();
  app.add_option("--pool", arguments.pool)->required();
  app.add_option("--incarnation", arguments.incarnation)->required();
  app.add_option("--agent", arguments.agent);
  app.add_option("--rank", arguments.rank);
  app.add_option("--local-rank", arguments.local_rank);
  app.add_option("--ranks", arguments.ranks);
  app.add_option("--ranks-of-node", arguments.ranks_of_node)->delimiter(',');
  app.add_option("--update-rates", arguments.update_rates);
  app.add_option("--state-dir", arguments.state_dir);
  app.add_option("--state-every", arguments.state_every);
  app.add_option("--trace", arguments.trace);
  app.add_option("--threads", arguments.threads);
  app.add_option("--cpus", arguments.cpus);
  app.add_option("--bulk-channels", arguments.bulk_channels);
  app.add_option("--push-bytes-per-second", arguments.push_bytes_per_second);
  app.add_option("--data-dir", arguments.data_dir);
  app.add_option("--work-dir", arguments.work_dir);
  app.add_option("--rendezvous", arguments.rendezvous);
  app.add_option("--generation", arguments.generation);
  app.add_option("--in-pool-address", arguments.in_pool_address);
  app.add_option("--in-pool-name", arguments.in_pool_name);
  app.add_option("--tls-ca", arguments.tls_files.ca);
  app.add_option("--tls-certificate", arguments.tls_files.certificate);
  app.add_option("--tls-key", arguments.tls_files.key);
  app.add_option("--drain-seconds", arguments.drain_seconds);
  app.add_option("--progress-timeout", arguments.progress_timeout);
  app.add_option("--progress-factor", arguments.progress_factor);
  app.add_option("--log-level", arguments.log_level);
  app.add_option("--log-format", arguments.log_format);
  const std::vector<std::string> args(argv + 1, argv + argc);
  try {  // CLI11 reports by exceptions, also for --help.
    longhaul::ParseCommandLine(app, args);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << longhaul::ExplainUsage(app, error, args).Text() << std::endl;
    return longhaul::kExitBadArguments;
  }
  // The agent ended before this process could ask to end with it. (An agent may be process 1 of a
  // container.)
  if (arguments.agent != 0 && getppid() != arguments.agent) return 1;
  const auto level = longhaul::ParseLogLevel(arguments.log_level);
  const auto format = longhaul::ParseLogFormat(arguments.log_format);
  return longhaul::RunRank(arguments, signals,
                           longhaul::Logger({.program = "longhaul-rank",
                                             .level = level.value_or(longhaul::LogLevel::kInfo),
                                             .format = format.value_or(longhaul::LogFormat::kAuto)})
                               .With({.pool = arguments.pool, .rank = arguments.rank}));
}
