// longhaul-rank: trains one rank of a pool. Started by longhaul-worker alone, which writes the
// assignment (proto JSON) to its standard input and reads its reports from descriptor
// kReportDescriptor. With --measure it measures this machine instead.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/exit_code.h"
#include "common/base/file_limit.h"
#include "common/base/mutex_checks.h"
#include "common/base/status_macros.h"
#include "common/base/status_marks.h"
#include "common/base/thread_limit.h"
#include "common/base/thread_team.h"
#include "common/codec/cuda/cuda_codec_module.h"
#include "common/command_line/output_end.h"
#include "common/config/data_sources.h"
#include "common/config/model_kinds.h"
#include "common/device/cuda_module.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/logging/logging.h"
#include "common/logging/standard_error.h"
#include "common/rpc/allocator.h"
#include "common/rpc/grpc_library.h"
#include "common/rpc/grpc_log.h"
#include "common/rpc/protobuf_log.h"
#include "common/rpc/tls.h"
#include "common/wire/data_summary.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/util/json_util.h"
#include "longhaul/v1/pool.pb.h"
#include "worker/agent/rank_process.h"
#include "worker/cores/processor_list.h"
#include "worker/kernels/gemm_bf16.h"
#include "worker/measure/host_figures.h"
#include "worker/rank/assignment.h"
#include "worker/rank/capabilities.h"
#include "worker/rank/device_names.h"
#include "worker/rank/fault.h"
#include "worker/rank/flags.h"
#include "worker/rank/kept_tokenizer.h"
#include "worker/rank/measured_exchange.h"
#include "worker/rank/pool_communicator.h"
#include "worker/rank/rank_end.h"
#include "worker/rank/rank_monitor.h"
#include "worker/rank/rank_reporter.h"
#include "worker/rank/replica_factory.h"
#include "worker/session/data_summary_of.h"
#include "worker/session/rank_session.h"

namespace longhaul {
namespace {

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
        if (session_ == nullptr) {
          FlushStandardError();
          _exit(kRankFinished);
        }
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
// Thousands of files may have something to warn of.
constexpr size_t kWarningsKept = 1000;

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

StateKeeper::Options InnerStateOf(const RankFlags& flags, const v1::JobSpec& spec) {
  return {.folder = flags.state_dir,
          .owner = {.spec = SpecDigest(spec)},
          .every = absl::Seconds(flags.state_every),
          .age_max = std::max(kStateStepsMax, kStateRoundsMax * spec.sync().h()),
          .first_of_node = flags.local_rank == 0};
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
  if (outcome.kind == Kind::kRestart)
    log.Warning(absl::StrCat("cannot continue: ", outcome.reason));
  return EndWith(EndOf(outcome, spec), outcome.status, outcome.reason, log, reporter);
}

// The codec of the device that trains. Null: the host codes.
std::shared_ptr<DeviceCodec> DeviceCodecOf(const v1::JobSpec& spec, int device, const Logger& log) {
  if (spec.train().device() != v1::CUDA) return nullptr;
  absl::StatusOr<std::shared_ptr<DeviceCodec>> codec = LoadCudaCodec(device);
  if (codec.ok()) return *std::move(codec);
  log.Warning(absl::StrCat("contributions are coded on the host: ",
                           codec.status().ToString(absl::StatusToStringMode::kWithNoExtraData)));
  return nullptr;
}

PoolCommunicatorOptions CommunicatorOptionsOf(const RankFlags& flags, const v1::JobSpec& spec,
                                              std::shared_ptr<const Tls> tls, ThreadTeam* team) {
  return {.rank = flags.rank,
          .ranks = flags.ranks,
          .local_rank = flags.local_rank,
          .rendezvous = flags.rendezvous,
          .tls = flags.in_pool_name.empty() ? nullptr : std::move(tls),
          .tls_name = flags.in_pool_name,
          .generation = flags.generation,
          .address = flags.in_pool_address,
          .device = spec.train().device(),
          .team = team};
}

// Without the communicator. Adds to `warnings` while the replica is made.
ReplicaOptions ReplicaOptionsOf(const RankFlags& flags, const v1::Assignment& assignment,
                                std::shared_ptr<ThreadTeam> team, RankMonitor& monitor,
                                const Logger& log, std::vector<v1::DataWarning>& warnings) {
  return {.spec = assignment.spec(),
          .ordinal = assignment.ordinal(),
          .site = {.link = {.ranks_of_node = flags.ranks_of_node,
                            .timeout = monitor.CollectiveTimeout()},
                   .device_index = flags.local_rank,
                   .threads = flags.threads,
                   .team = std::move(team),
                   .trace_path = flags.trace,
                   .patience = Patience([&monitor] { return monitor.OwnPatience(); })},
          .pool = flags.pool,
          .data_dir = flags.data_dir,
          .work_dir = flags.work_dir,
          .on_wait = [&monitor](const std::string& what) { monitor.WaitsFor(what); },
          .on_warning =
              [log, &warnings, first = flags.rank == 0](const DataWarning& warning) {
                if (first) log.Warning(warning.message);
                // Those of one kind are told as one.
                if (warnings.size() == kWarningsKept) return;
                v1::DataWarning& kept = warnings.emplace_back();
                kept.set_kind(warning.kind);
                kept.set_message(warning.message);
              },
          .update_rates_path = flags.update_rates};
}

// Rank 0 reports for the pool. An evaluation takes as long as so many steps, or less.
session::SessionObserver ObserverOf(const RankFlags& flags, int64_t evaluation_steps,
                                    RankMonitor& monitor, RankReporter& reporter) {
  session::SessionObserver observer;
  observer.on_compute = [&monitor, evaluation_steps](int64_t step) {
    step > 0 ? monitor.BeginStep() : monitor.BeginEvaluation(evaluation_steps);
  };
  observer.on_computed = [&monitor](int64_t step, absl::Duration took) {
    step > 0 ? monitor.EndStep(step, took) : monitor.EndEvaluation();
  };
  observer.on_wait = [&monitor](const std::string& what) { monitor.WaitsFor(what); };
  observer.on_damaged_pull = [&monitor] { monitor.PullDamaged(); };
  if (flags.rank != 0) return observer;
  observer.on_progress = [&reporter](const session::Progress& progress) {
    reporter.Progress(progress);
  };
  observer.on_evaluation = [&reporter](const session::EvaluationResult& result) {
    reporter.Evaluation(result);
  };
  return observer;
}

session::RankSession::Options SessionOptionsOf(const RankFlags& flags,
                                               const v1::Assignment& assignment,
                                               std::shared_ptr<const Tls> tls, ThreadTeam* team,
                                               session::SessionObserver observer,
                                               const Logger& log) {
  const v1::JobSpec& spec = assignment.spec();
  return {.coordinator = flags.coordinator,
          .job = assignment.job_id(),
          .pool = flags.pool,
          .incarnation = flags.incarnation,
          .noise_seed = spec.train().seed(),
          .tls = std::move(tls),
          .bulk_channels = flags.bulk_channels,
          .push_bytes_per_second = flags.push_bytes_per_second,
          .evaluation_steps_max = StepsBetweenEvaluations(spec),
          .device_codec = DeviceCodecOf(spec, flags.local_rank, log),
          .team = team,
          .inner_state = InnerStateOf(flags, spec),
          .log = log,
          .observer = std::move(observer)};
}

// Warns of ranks on other GPUs, for example of another node. Collective.
absl::Status CompareDevices(const v1::JobSpec& spec, const RankFlags& flags, Replica& replica,
                            const Logger& log) {
  if (spec.train().device() != v1::CUDA || replica.ranks() == 1) return absl::OkStatus();
  LH_ASSIGN_OR_RETURN(
      const std::string warning,
      WarningOfDevices(CudaDeviceName(flags.local_rank).value_or(""),
                       [&](absl::Span<const int64_t> words) { return replica.AllGather(words); }));
  if (flags.rank == 0 && !warning.empty()) log.Warning(warning);
  return absl::OkStatus();
}

// A site whose data is not what it was would train on what is left of it.
absl::Status CompareData(const v1::Assignment& assignment, const Replica& replica,
                         const Logger& log) {
  const std::string change =
      DifferenceOf(assignment.data(), session::DataSummaryOf(replica.InnerStatePhase()),
                   UnitNameOf(assignment.spec().model()));
  if (change.empty()) return absl::OkStatus();
  const std::string what =
      absl::StrCat("the data of this pool has changed since it began the job: ", change);
  if (!assignment.spec().data().may_change())
    return AboutField(kDataMayChangeField, absl::FailedPreconditionError(what));
  if (replica.rank() == 0) log.Warning(what);
  return absl::OkStatus();
}

// Meets the pool's other ranks, prepares the model, and trains. Returns the exit code of the
// process; faults of the site or the job were reported.
int Train(const RankFlags& flags, const v1::Assignment& assignment, DrainOnSignal& drain,
          RankMonitor& monitor, RankReporter& reporter, const Logger& log) {
  const v1::JobSpec& spec = assignment.spec();
  const auto end = [&](FaultOrigin origin, const absl::Status& status, const std::string& reason) {
    return EndWith(EndOf(origin, spec, status), status, reason, log, reporter);
  };
  const absl::StatusOr<std::shared_ptr<const Tls>> tls = LoadTlsIfGiven(flags.tls_files, log);
  if (!tls.ok()) {
    log.Error(tls.status().ToString(absl::StatusToStringMode::kWithNoExtraData));
    return kRankRestart;
  }
  const absl::Status able = CheckCapabilities(spec, spec.train().device());
  if (!able.ok()) return end(FaultOrigin::kCapabilities, able, "before anything was begun");
  absl::StatusOr<std::string> tokenizer = std::string();
  if (HasKeptTokenizer(spec)) {
    tokenizer =
        BringTokenizer({.coordinator = flags.coordinator,
                        .tls = *tls,
                        .job = assignment.job_id(),
                        .pool = flags.pool,
                        .incarnation = flags.incarnation,
                        .digest = spec.data().model_tokenizer(),
                        .work_dir = flags.work_dir,
                        .on_wait = [&](const std::string& what) { monitor.WaitsFor(what); }});
  }
  if (absl::IsUnavailable(tokenizer.status()) || absl::IsDeadlineExceeded(tokenizer.status()) ||
      absl::IsResourceExhausted(tokenizer.status())) {
    log.Warning(tokenizer.status().ToString(absl::StatusToStringMode::kWithNoExtraData));
    return kRankRestart;
  }
  if (!tokenizer.ok()) {
    return end(FaultOrigin::kPreparation, MarkTokenizer(tokenizer.status()),
               "while its tokenizer was brought here");
  }
  const auto team = std::make_shared<ThreadTeam>(flags.threads);
  absl::StatusOr<PoolCommunicator> communicator =
      MakePoolCommunicator(CommunicatorOptionsOf(flags, spec, *tls, team.get()));
  if (!communicator.ok())
    return end(FaultOrigin::kMeeting, communicator.status(), "while the pool's ranks met");
  if (communicator->get() != nullptr) communicator->get()->SetWatch(&monitor);
  std::vector<v1::DataWarning> warnings;
  ReplicaOptions options = ReplicaOptionsOf(flags, assignment, team, monitor, log, warnings);
  options.site.link.communicator = communicator->get();
  options.site.link.on_device = communicator->on_device;
  options.tokenizer_folder = *tokenizer;
  const absl::StatusOr<std::unique_ptr<Replica>> made = MakeReplica(options);
  if (!made.ok())
    return end(FaultOrigin::kPreparation, made.status(), "while the model was prepared");
  if (const std::string line = (*made)->Describe(); flags.rank == 0 && !line.empty())
    log.Info(line);
  if (const std::string slow = SlowComputing(spec, kernels::HasFastBf16()); !slow.empty())
    log.Warning(slow);
  Replica& replica = **made;
  if (const absl::Status compared = CompareDevices(spec, flags, replica, log); !compared.ok())
    return end(FaultOrigin::kPreparation, compared, "while the model was prepared");
  if (const absl::Status same = CompareData(assignment, replica, log); !same.ok())
    return end(FaultOrigin::kPreparation, same, "while the model was prepared");
  const int64_t evaluation_steps =
      std::max<int64_t>(spec.evaluation().batches(), replica.EvaluationSteps());
  session::RankSession::Options session_options =
      SessionOptionsOf(flags, assignment, *tls, team.get(),
                       ObserverOf(flags, evaluation_steps, monitor, reporter), log);
  session_options.data_warnings = std::move(warnings);
  session::RankSession session(std::move(session_options), &replica);
  drain.SetSession(&session);
  const session::Outcome outcome = session.Run();
  drain.SetSession(nullptr);
  reporter.Flush();
  return EndWith(outcome, spec, log, reporter);
}

// Writes what this machine does (worker/measure) to the file that the agent reads.
int MeasureMachine(const RankFlags& flags, const Logger& log) {
  const auto fail = [&](const absl::Status& status) {
    log.Error(status.message());
    return kExitFailed;
  };
  // Also before threads exist.
  if (const absl::Status bound = BindToProcessors(flags.cpus); !bound.ok())
    log.Warning(absl::StrCat("not bound to its cores: ", bound.message()));
  absl::Status able = CheckThreads(RankThreadsNeeded(flags.threads * flags.node_ranks));
  if (!able.ok()) return fail(able);
  const absl::StatusOr<v1::HostFigures> figures =
      MeasureHost({.version = LONGHAUL_VERSION,
                   .until = absl::Seconds(flags.measure_until),
                   .threads = flags.threads,
                   .ranks = flags.node_ranks,
                   .exchange = MeasureExchange});
  if (!figures.ok()) return fail(figures.status());
  std::string json;
  LH_CHECK(google::protobuf::util::MessageToJsonString(*figures, &json).ok(),
           "figures have a JSON form");
  const absl::Status written = WriteFileAtomically(*MakePosixFileSystem(), flags.measure, json);
  return written.ok() ? 0 : fail(written);
}

int RunRank(const RankFlags& flags, const sigset_t& signals, const Logger& of_rank) {
  // Before threads and memory exist: threads inherit the binding, and pages lie on the node that
  // touches them first.
  if (const absl::Status bound = BindToProcessors(flags.cpus); !bound.ok())
    of_rank.Warning(absl::StrCat("not bound to its cores: ", bound.message()));
  absl::Status able = CheckThreads(RankThreadsNeeded(flags.threads));
  able.Update(CheckFiles(RankFilesNeeded(flags.ranks)));
  if (!able.ok()) {
    of_rank.Error(absl::StrCat("SITE_FAULT before anything was begun: ", able.message()));
    ReportFault(kReportDescriptor, DescribeFault(FaultOrigin::kPreparation, {}, able));
    return kRankFailed;
  }
  SendProtobufLogTo(of_rank);
  SendGrpcLogTo(of_rank);
  KeepGrpcLibrary();
  ReportWhenMemoryEnds(kReportDescriptor);
  auto& drain = *new DrainOnSignal(signals, absl::Seconds(0.9 * flags.drain_seconds), of_rank);
  RankMonitor monitor(
      {.at_least = absl::Seconds(flags.progress_timeout), .factor = flags.progress_factor});
  const absl::StatusOr<v1::Assignment> assignment = ReadAssignment();
  const v1::Assignment known = assignment.value_or(v1::Assignment());
  const Logger log = of_rank.With({.job = known.spec().name(), .job_id = known.job_id()});
  RankReporter reporter(kReportDescriptor, known.spec().train().steps(), &monitor);
  if (!assignment.ok()) {
    return EndWith(EndOf(FaultOrigin::kAssignment, known.spec(), assignment.status()),
                   assignment.status(), "while the assignment was read", log, reporter);
  }
  return Train(flags, *assignment, drain, monitor, reporter, log);
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) {
  // The system ends the rank when its agent ends.
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  signal(SIGPIPE, SIG_IGN);
  longhaul::IgnoreFileSizeSignal();
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  sigaddset(&signals, SIGINT);
  // Before any other thread exists, since threads inherit it.
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  longhaul::SkipLockCycleSearch();
  longhaul::TuneAllocatorForBulk();
  int exit_code = 0;
  const std::optional<longhaul::RankFlags> flags = longhaul::ParseRankFlags(argc, argv, &exit_code);
  if (!flags.has_value()) return longhaul::ExitAfterOutput(exit_code, std::cout, std::cerr);
  // The agent ended before this process could ask to end with it. (An agent may be process 1 of a
  // container.)
  if (flags->agent != 0 && getppid() != flags->agent) return 1;
  const auto level = longhaul::ParseLogLevel(flags->log_level);
  const auto format = longhaul::ParseLogFormat(flags->log_format);
  const longhaul::Logger log =
      longhaul::Logger({.program = "longhaul-rank",
                        .level = level.value_or(longhaul::LogLevel::kInfo),
                        .format = format.value_or(longhaul::LogFormat::kAuto)})
          .With({.pool = flags->pool, .rank = flags->rank});
  const int code = flags->measure.empty() ? longhaul::RunRank(*flags, signals, log)
                                          : longhaul::MeasureMachine(*flags, log);
  longhaul::EndProgram(code);
}
