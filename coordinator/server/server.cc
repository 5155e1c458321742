#include "coordinator/server/server.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "common/base/counted.h"
#include "common/base/status_macros.h"
#include "common/http/server.h"
#include "common/io/available_memory.h"
#include "common/io/posix_filesystem.h"
#include "common/logging/flag_error.h"
#include "common/logging/standard_error.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "common/rpc/allocator.h"
#include "common/rpc/executor.h"
#include "common/rpc/server.h"
#include "common/rpc/status_details.h"
#include "common/rpc/user_tokens.h"
#include "common/track/tracker.h"
#include "coordinator/access/audit_log.h"
#include "coordinator/access/door.h"
#include "coordinator/effects/job_tracks.h"
#include "coordinator/effects/owner_arbiter.h"
#include "coordinator/effects/owner_thread.h"
#include "coordinator/effects/performer.h"
#include "coordinator/server/start_checks.h"
#include "coordinator/service/curve_service.h"
#include "coordinator/service/forecasts.h"
#include "coordinator/service/job_metrics.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/log_service.h"
#include "coordinator/service/pool_service.h"
#include "coordinator/service/server_service.h"
#include "coordinator/service/status_pages.h"
#include "coordinator/service/stream_publisher.h"
#include "coordinator/service/sync_service.h"
#include "coordinator/service/upload_service.h"
#include "coordinator/store/job_folder.h"

namespace longhaul::coordinator {
namespace {

constexpr int kTicksPerSecond = 5;
// Once a minute freed memory is given back if there is so much: that of many jobs that have ended
// does not become free by itself. What streams need again and again is less.
constexpr int kTicksBetweenReturns = 60 * kTicksPerSecond;
constexpr size_t kFreeBytesMax = size_t{512} << 20;
// A large limit: the submitted jobs bound the tasks. Each fragment of a job has a round, and each
// job has a snapshot and some checkpoints.
constexpr int kQueueMax = 1 << 20;
// A stream has one task there, and a pool at most half of them.
constexpr int kBulkQueueMax = 4096;
// How many rounds are applied at one time, each on all cores, and how many chunks of streams are
// logged or read.
constexpr int kApplyThreads = 2, kBulkThreads = 16;
// How many points of curves may wait for the disk.
constexpr int kTrackQueueMax = 1 << 14;
constexpr absl::Duration kWatchEach = absl::Milliseconds(500);

void ExitAtOnce(const absl::Status& status) {
  FlushStandardError();
  std::_Exit(1);
}

// The rest is for streams, the database and other programs.
int64_t DefaultMemory() {
  const absl::StatusOr<int64_t> limit = MemoryLimit();
  return limit.ok() ? *limit / 10 * 9 : std::numeric_limits<int64_t>::max();
}

}  // namespace

// Members are in the order of their construction, and are destroyed in reverse order.
class CoordinatorServer::Impl {
 public:
  explicit Impl(const CoordinatorServerOptions& options)
      : own_clock_(options.clock == nullptr ? MakeSystemClock() : nullptr),
        clock_(options.clock == nullptr ? own_clock_.get() : options.clock),
        log_(options.log),
        operations_(options.operations),
        slow_(options.slow),
        data_dir_(options.data_dir),
        own_fs_(options.fs == nullptr ? MakePosixFileSystem() : nullptr),
        watched_fs_(MakeWatchedFileSystem(options.fs == nullptr ? own_fs_.get() : options.fs,
                                          operations_.get())),
        fs_(watched_fs_.get()),
        track_(std::make_unique<Executor>(
            Executor::Options{.threads = 1, .queue_max = kTrackQueueMax})),
        tracker_(fs_, track_.get(), log_),
        tracks_(&tracker_, options.data_dir),
        effect_metrics_(registry_),
        fragment_metrics_(registry_),
        job_metrics_(registry_),
        upload_metrics_(registry_),
        bulk_streams_(
            registry_.Gauge("longhaul_coordinator_bulk_streams", "Bulk streams in flight.")),
        publisher_(&plan_streams_, &watchers_) {}

  absl::Status Start(const CoordinatorServerOptions& options) {
    LH_RETURN_IF_ERROR(CheckOptions(options, log_));
    LH_RETURN_IF_ERROR(OpenAccess(options));
    LH_ASSIGN_OR_RETURN(meta_, OpenDatabase(*fs_, options.data_dir, log_, operations_.get()));
    LookForSpace();
    std::vector<std::string> troubles;
    LH_ASSIGN_OR_RETURN(uploads_, Uploads::Open(fs_, clock_,
                                                {.data_dir = options.data_dir,
                                                 .bytes_max = options.upload_bytes_max,
                                                 .keep = options.upload_keep},
                                                &troubles));
    for (const std::string& trouble : troubles) log_.Warning(trouble);
    LH_ASSIGN_OR_RETURN(RecoveredState recovered, RecoverState(*meta_, log_));
    // Who starts it for the first time reads first where it serves.
    if (const auto found = static_cast<int64_t>(recovered.jobs.size()); found > 0) {
      log_.Info(absl::StrCat("found ", Counted(found, "job"), " in ", options.data_dir,
                             ", not yet ended"));
    }
    StartWork(options, std::move(recovered));
    return Serve(options);
  }

  void Shutdown(absl::Duration grace) {
    if (!owner_ || std::exchange(shut_down_, true)) return;
    log_.Info("shutting down");
    if (server_) server_->SetServing(false);
    log_hub_.EndAll(absl::UnavailableError("the coordinator is shutting down"));
    EndCalls(absl::UnavailableError("the coordinator is shutting down"));
    if (server_) server_->Shutdown(grace);
    // Pages use the threads that end below.
    http_server_.reset();
    // No call can come any more. Rounds in progress are finished, but nothing more is decided.
    (void)owner_->Submit([this] { performer_->SaveCounters(); });
    owner_->Stop();
    bulk_.reset();
    beside_.reset();
    reader_.reset();
    answers_.reset();
    withdrawals_.reset();
    apply_.reset();
    opening_.reset();
    background_.reset();
    snapshots_.reset();
    tracker_.Close("");
    track_.reset();
    log_.Info("state is persisted");
  }

  const std::string& address() const { return server_->address(); }
  std::string http_address() const { return http_server_ ? http_server_->address() : ""; }

  std::string Stands(absl::Duration at_least) const {
    const std::string disk = operations_->OldestBelow(data_dir_, at_least);
    if (const absl::Duration turn = watched_owner_ ? owner_->stalled_for() : absl::ZeroDuration();
        turn >= at_least) {
      return absl::StrCat("nothing has been decided for ",
                          absl::FormatDuration(absl::Trunc(turn, absl::Seconds(1))),
                          disk.empty() ? "" : ": ", disk);
    }
    if (!disk.empty()) return absl::StrCat("the coordinator's disk: ", disk);
    return audit_ && audit_->stalled_for() >= at_least ? std::string(audit_->Health().message())
                                                       : "";
  }

 private:
  void StartWork(const CoordinatorServerOptions& options, RecoveredState recovered) {
    apply_ = std::make_unique<Executor>(
        Executor::Options{.threads = kApplyThreads, .queue_max = kQueueMax});
    opening_ = std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax});
    background_ =
        std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax});
    snapshots_ =
        std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax});
    bulk_ = std::make_unique<Executor>(
        Executor::Options{.threads = kBulkThreads, .queue_max = kBulkQueueMax});
    beside_ = std::make_unique<Executor>(Executor::Options{.threads = 4, .queue_max = 1024});
    reader_ = std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = 1024});
    answers_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .queue_max = 1 << 16});
    // A folder that hangs may take all threads of the others.
    withdrawals_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .queue_max = 1});
    fragments_ = std::make_unique<Fragments>(Fragments::Options{.data_dir = options.data_dir},
                                             Fragments::Parts{.fs = fs_,
                                                              .arbiter = &arbiter_,
                                                              .apply = apply_.get(),
                                                              .opening = opening_.get(),
                                                              .background = background_.get(),
                                                              .snapshots = snapshots_.get(),
                                                              .metrics = &fragment_metrics_,
                                                              .log = &log_});
    owner_ = std::make_unique<OwnerThread>(OwnerThread::Options(), clock_, [this] { Tick(); });
    ballast_ = std::make_unique<Ballast>(fs_, BallastPath(options.data_dir));
    performer_ = std::make_unique<Performer>(
        PerformerOptions{.core = options.core,
                         .ended_job_keep = options.ended_job_keep,
                         .on_expired = [this](const std::string& job) { AuditExpiry(job); },
                         .on_fatal = options.on_fatal ? options.on_fatal : ExitAtOnce},
        PerformerParts{.meta = meta_.get(),
                       .records = meta_.get(),
                       .fragments = fragments_.get(),
                       .publisher = &publisher_,
                       .owner = owner_.get(),
                       .now = [this] { return owner_->now(); },
                       .metrics = &effect_metrics_,
                       .tracks = &tracks_,
                       .ballast = ballast_.get(),
                       .log = &log_},
        std::move(recovered));
    watched_owner_ = true;
    watchdog_ = std::jthread([this](const std::stop_token& stop) { WatchOwner(stop); });
    publisher_.Connect(performer_.get());
    arbiter_.Connect(performer_.get(), owner_.get());
    (void)owner_->Submit([this] {
      performer_->Start();
      started_ = true;
    });
  }

  // Owner thread.
  void Tick() {
    if (!started_) return;
    performer_->PassTime();
    publisher_.Flush();
    if (++ticks_ % kTicksPerSecond != 0) return;
    plan_streams_.Sweep();
    if (serves_) forecasts_->Look();
    job_metrics_.Show(*performer_);
    bulk_streams_.With().Set(admission_.streams());
    // Not here, since it reads a file. If there is no room, the next second does it.
    (void)withdrawals_->Submit([this] { door_->EndWithdrawn(); });
    SweepUploads();
    NoteHangs();
    if (audit_) audit_->Retry();
    if (!looking_for_space_.exchange(true) && !beside_->Submit([this] { LookForSpace(); }))
      looking_for_space_ = false;
    if (ticks_ % kTicksBetweenReturns == 0)
      (void)background_->Submit([] { ReturnFreeMemory(kFreeBytesMax); });
  }

  // Users hear why they get no answer. Whoever waits for a turn of the owner thread cannot say it.
  void WatchOwner(const std::stop_token& stop) {
    absl::Mutex mutex;
    const std::stop_callback wake(stop, [&mutex] { absl::MutexLock lock(&mutex); });
    const auto stopped = [&stop] { return stop.stop_requested(); };
    absl::MutexLock lock(&mutex);
    while (!mutex.AwaitWithTimeout(absl::Condition(&stopped), kWatchEach)) {
      if (owner_->stalled_for() < slow_) continue;
      owner_->RefuseWaiting(
          WithRetryDelay(absl::UnavailableError(Stands(slow_)), absl::Seconds(5)));
    }
  }

  // Owner thread. A job that waits for an operation of the disk says so, and blames no pool.
  // Checkpoints hold it up only at its end, or before a pause.
  void NoteHangs() {
    for (const std::shared_ptr<LiveJob>& job : performer_->All()) {
      if (!job->fragments) continue;
      const std::string dir = fragments_->JobDir(job->id());
      const bool awaits_checkpoint =
          job->state() == JobState::kFinishing || job->state() == JobState::kPausing;
      job->fragments->set_full(
          JobFragments::Storing::kAnswer, operations_->Oldest(slow_, [&](absl::string_view path) {
            return IsBelow(path, dir) && !IsBelow(path, TrackFolder(dir)) &&
                   !IsBelow(path, SnapshotFolder(dir)) &&
                   (awaits_checkpoint || !IsBelow(path, CheckpointFolder(dir)));
          }));
    }
  }

  // The system may wait for a disk here, too, so whoever shows the numbers does not ask it.
  void LookForSpace() {
    const SlowOperations::Operation operation(operations_.get(), "statvfs", data_dir_);
    std::error_code error;
    const std::filesystem::space_info found = std::filesystem::space(data_dir_, error);
    space_free_ = error ? -1 : static_cast<int64_t>(found.available);
    space_size_ = error ? -1 : static_cast<int64_t>(found.capacity);
    looking_for_space_ = false;
  }

  // Owner thread. Beside it what no job needs any more is removed.
  void SweepUploads() {
    uploads_->SetNeeded(performer_->InitialUploads());
    if (sweeping_.exchange(true)) return;
    const bool posted = background_->Submit([this] {
      for (const std::string& upload : uploads_->Sweep())
        log_.Info(absl::StrCat("removed the upload ", upload, ", which no job needs"));
      upload_metrics_.Show(*uploads_);
      sweeping_ = false;
    });
    if (!posted) sweeping_ = false;
  }

  // The one deletion that no call makes.
  void AuditExpiry(const std::string& job) {
    if (!audit_) return;
    audit_->Note({.who = "coordinator",
                  .method = "longhaul.v1.JobService/DeleteJob",
                  .job = job,
                  .result = "OK",
                  .message = "it ended longer ago than --ended-job-keep"});
  }

  // Those that would wait for something other than their clients.
  void EndCalls(const absl::Status& status) {
    absl::Notification done;
    const bool posted = owner_->Submit([&] {
      performer_->GoDown();
      plan_streams_.EndAll(status);
      watchers_.EndAll(status);
      done.Notify();
    });
    if (posted) done.WaitForNotification();
  }

  absl::Status Health() const {
    if (const std::string stands = Stands(slow_); !stands.empty())
      return absl::UnavailableError(stands);
    LH_RETURN_IF_ERROR(performer_->health());
    LH_RETURN_IF_ERROR(fragments_->Health());
    return audit_ ? audit_->Health() : absl::OkStatus();
  }

  absl::Status OpenAccess(const CoordinatorServerOptions& options) {
    if (!options.tokens_file.empty()) {
      LH_ASSIGN_OR_RETURN(tokens_, Tokens::Open("--tokens", options.tokens_file, log_));
    }
    if (!options.audit_log.empty()) {
      LH_ASSIGN_OR_RETURN(audit_, AuditLog::Open(options.audit_log, log_));
    }
    Door::Options door{.tokens = tokens_.get(), .calls_per_second = options.calls_per_second};
    if (options.tls && !options.tls->files().contents().crl.empty()) {
      door.is_revoked = [tls = options.tls](const std::string& certificate) {
        return tls->files().IsRevoked(certificate);
      };
    }
    door_ = std::make_shared<Door>(door);
    if (options.tls && !tokens_) {
      log_.Info("without --tokens every certificate of the authority may submit and cancel jobs");
    }
    return absl::OkStatus();
  }

  ServerOptions RpcOptions(const CoordinatorServerOptions& options) {
    ServerOptions rpc{.address = options.listen,
                      .tls = options.tls,
                      .allow_plaintext_beyond_localhost = options.insecure};
    if (options.tls) {
      rpc.door = door_;
      rpc.knows_caller = [door = door_.get()](const auto& metadata, const auto& connection) {
        return door->Knows(metadata, connection);
      };
    }
    // Else nobody whom no authority knows gets beyond the handshake.
    if (tokens_ && options.allow_token_only)
      rpc.client_certificates = ClientCertificates::kOptional;
    rpc.interceptors = [this, guarded = options.tls != nullptr] {
      ServerOptions::Interceptors interceptors;
      // gRPC asks the last one first about what was received. So the log knows who calls, and what
      // the guard refused.
      if (audit_) {
        interceptors.push_back(audit_->MakeObserver(
            {.who = [this](const auto& call) { return door_->WhoCalls(call); },
             .refused = [this](const auto& call) { return door_->IsRefused(call); }}));
      }
      if (guarded) interceptors.push_back(door_->MakeGuard());
      return interceptors;
    };
    return rpc;
  }

  absl::Status Serve(const CoordinatorServerOptions& options) {
    const ServiceContext service{.owner = owner_.get(),
                                 .control = performer_.get(),
                                 .plan_streams = &plan_streams_,
                                 .watchers = &watchers_,
                                 .beside = beside_.get(),
                                 .reader = reader_.get(),
                                 .answers = answers_.get(),
                                 .bulk = {.executor = bulk_.get(), .admission = &admission_},
                                 .uploads = uploads_.get(),
                                 .certificates = options.tls != nullptr,
                                 .door = options.tls ? door_.get() : nullptr,
                                 .memory = options.core.memory,
                                 .import_dir = options.import_dir};
    LH_RETURN_IF_ERROR(ServeCalls(options, service));
    (void)owner_->Submit([this] { serves_ = true; });
    return options.http_listen.empty() ? absl::OkStatus() : ServePages(options, service);
  }

  absl::Status ServeCalls(const CoordinatorServerOptions& options, const ServiceContext& service) {
    forecasts_ = std::make_unique<Forecasts>(service, [this] {
      v1::ListPoolsResponse pools;
      pool_service_->List("", std::numeric_limits<size_t>::max(), &pools);
      return pools;
    });
    job_service_ = std::make_unique<JobService>(service, forecasts_.get());
    upload_service_ = std::make_unique<UploadService>(service, &upload_metrics_);
    pool_service_ = std::make_unique<PoolService>(service, registry_);
    sync_service_ = std::make_unique<SyncService>(service);
    curve_service_ = std::make_unique<CurveService>(service);
    log_service_ = std::make_unique<LogService>(&log_hub_, service.certificates, service.door);
    server_service_ = std::make_unique<ServerService>(ServerFacts{
        .clock = clock_,
        .started = clock_->Now(),
        .disk_free_bytes = [this] { return space_free_.load(); },
        .ready = [this] { return Health(); },
        .http_address = [this] { return shows_pages_ ? http_address() : std::string(); },
        .http_tls = options.http_tls,
        .door = service.door});
    LH_ASSIGN_OR_RETURN(server_,
                        OfFlag("--listen", Server::Start(RpcOptions(options),
                                                         {job_service_.get(), upload_service_.get(),
                                                          pool_service_.get(), sync_service_.get(),
                                                          server_service_.get(), log_service_.get(),
                                                          curve_service_.get()})));
    return absl::OkStatus();
  }

  absl::Status ServePages(const CoordinatorServerOptions& options, const ServiceContext& service) {
    const auto ready = [this] { return Health(); };
    Pages pages;
    if (tokens_) {
      // A user with any role may look at the pages.
      pages.SetGate([this](absl::string_view authorization) {
        return tokens_->Authenticate(authorization).status();
      });
    }
    AddProbes(pages, ready);
    AddProcessMetrics(registry_, "longhaul_coordinator_build_info", LONGHAUL_VERSION);
    AddSystemMetrics(options);
    AddMetricsPage(pages, registry_);
    AddStatusPages(pages, {.service = service,
                           .pools = pool_service_.get(),
                           .ready = ready,
                           .started = clock_->Now()});
    LH_ASSIGN_OR_RETURN(HttpServer::Options http, HttpServer::OptionsFrom(options.http_listen));
    if (options.http_tls) {
      http.identity = [tls = options.tls] {
        const TlsContents contents = tls->files().contents();
        return HttpIdentity{contents.certificate, contents.key};
      };
    }
    LH_ASSIGN_OR_RETURN(http_server_,
                        OfFlag("--http-listen", HttpServer::Start(http, std::move(pages))));
    shows_pages_ = true;
    return absl::OkStatus();
  }

  // What stands still or is lost, and what ends one day: the room on the disk, and the certificate.
  void AddSystemMetrics(const CoordinatorServerOptions& options) {
    registry_.Gauge("longhaul_coordinator_ready",
                    "1: decisions take effect. 0: they wait for disk space, a disk operation "
                    "hangs, or the audit log cannot be written; /readyz gives the reason.",
                    [this] { return Health().ok() ? 1. : 0.; });
    registry_.Gauge("longhaul_coordinator_slow_disk_operation_seconds",
                    "Age of the oldest pending disk operation; 0 below 10 s.",
                    [this] { return absl::ToDoubleSeconds(operations_->Longest()); });
    registry_.Counter("longhaul_coordinator_log_lines_dropped_total",
                      "Log lines that were dropped because nobody read standard error.",
                      [] { return static_cast<double>(StandardErrorLinesDropped()); });
    registry_.Counter("longhaul_coordinator_audit_lines_dropped_total",
                      "Audit log lines that could not be written.",
                      [this] { return audit_ ? static_cast<double>(audit_->dropped()) : 0.; });
    const auto space = [](const std::atomic<int64_t>& bytes) {
      return [&bytes]() -> std::optional<double> {
        const int64_t known = bytes;
        return known < 0 ? std::nullopt : std::optional(static_cast<double>(known));
      };
    };
    registry_.Gauge("longhaul_coordinator_data_free_bytes",
                    "Free space of the file system of --data-dir.", space(space_free_));
    registry_.Gauge("longhaul_coordinator_data_size_bytes",
                    "Size of the file system of --data-dir.", space(space_size_));
    if (tokens_ != nullptr) {
      registry_.Gauge("longhaul_coordinator_tokens_refused",
                      "1: the current file of --tokens is invalid. The users that were read before "
                      "stay valid for 10 minutes.",
                      [tokens = tokens_.get()] { return tokens->refused() ? 1. : 0.; });
    }
    if (options.tls == nullptr) return;
    registry_.Gauge("longhaul_coordinator_certificate_expiry_timestamp_seconds",
                    "Expiry of the certificate in use (--tls-certificate), as Unix time.",
                    [tls = options.tls] { return CertificateExpirySeconds(*tls); });
    registry_.Gauge("longhaul_coordinator_tls_files_refused",
                    "1: the current files of --tls-ca, --tls-certificate, --tls-key and --tls-crl "
                    "are invalid. The previous ones stay in use.",
                    [tls = options.tls] { return tls->files().refused() ? 1. : 0.; });
  }

  const std::unique_ptr<Clock> own_clock_;
  Clock* const clock_;
  const Logger log_;
  const std::shared_ptr<SlowOperations> operations_;
  const absl::Duration slow_;
  const std::string data_dir_;
  const std::unique_ptr<FileSystem> own_fs_, watched_fs_;
  FileSystem* const fs_;
  // -1: not known.
  std::atomic<int64_t> space_free_ = -1, space_size_ = -1;
  std::atomic<bool> looking_for_space_ = false;
  std::unique_ptr<Executor> track_;
  Tracker tracker_;
  JobTracks tracks_;
  MetricRegistry registry_;
  EffectMetrics effect_metrics_;
  FragmentMetrics fragment_metrics_;
  JobMetrics job_metrics_;
  UploadMetrics upload_metrics_;
  GaugeFamily& bulk_streams_;
  PlanStreams plan_streams_;
  JobWatchers watchers_;
  StreamPublisher publisher_;
  LogHub log_hub_;
  OwnerArbiter arbiter_;
  StreamAdmission admission_{{}};
  std::unique_ptr<Tokens> tokens_;
  std::unique_ptr<AuditLog> audit_;
  std::shared_ptr<Door> door_;
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<Uploads> uploads_;
  std::atomic<bool> sweeping_ = false;  // A removal of uploads is queued or runs.
  std::unique_ptr<Fragments> fragments_;
  std::unique_ptr<Performer> performer_;
  std::unique_ptr<Executor> apply_, opening_, background_, snapshots_, bulk_, beside_, reader_,
      answers_, withdrawals_;
  std::unique_ptr<Ballast> ballast_;
  std::unique_ptr<OwnerThread> owner_;
  // True once owner_ exists.
  std::atomic<bool> watched_owner_ = false;
  std::jthread watchdog_;
  std::unique_ptr<Forecasts> forecasts_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<UploadService> upload_service_;
  std::unique_ptr<PoolService> pool_service_;
  std::unique_ptr<SyncService> sync_service_;
  std::unique_ptr<ServerService> server_service_;
  std::unique_ptr<LogService> log_service_;
  std::unique_ptr<CurveService> curve_service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpServer> http_server_;
  // True once http_server_ exists.
  std::atomic<bool> shows_pages_ = false;
  // Owner thread.
  bool started_ = false, serves_ = false;
  int64_t ticks_ = 0;
  bool shut_down_ = false;
};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorServerOptions options) {
  if (options.core.memory == 0) options.core.memory = DefaultMemory();
  if (options.operations == nullptr)
    options.operations = std::make_shared<SlowOperations>(SlowOperations::Options());
  auto impl = std::make_unique<Impl>(options);
  const absl::Status started = impl->Start(options);
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(std::move(impl)));
  if (!started.ok()) return started;
  return server;
}

CoordinatorServer::CoordinatorServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CoordinatorServer::~CoordinatorServer() { Shutdown(absl::ZeroDuration()); }

const std::string& CoordinatorServer::address() const { return impl_->address(); }
std::string CoordinatorServer::http_address() const { return impl_->http_address(); }

std::string CoordinatorServer::Stands(absl::Duration at_least) const {
  return impl_->Stands(at_least);
}

void CoordinatorServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace longhaul::coordinator
