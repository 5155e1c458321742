#include "coordinator/server/server.h"

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/notification.h"
#include "common/base/status_macros.h"
#include "common/http/server.h"
#include "common/io/available_memory.h"
#include "common/io/posix_filesystem.h"
#include "common/logging/flag_error.h"
#include "common/metrics/process_metrics.h"
#include "common/metrics/registry.h"
#include "common/rpc/executor.h"
#include "common/rpc/server.h"
#include "common/rpc/user_tokens.h"
#include "common/track/tracker.h"
#include "coordinator/access/audit_log.h"
#include "coordinator/access/door.h"
#include "coordinator/effects/job_tracks.h"
#include "coordinator/effects/owner_arbiter.h"
#include "coordinator/effects/owner_thread.h"
#include "coordinator/effects/performer.h"
#include "coordinator/server/start_checks.h"
#include "coordinator/service/job_metrics.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/log_service.h"
#include "coordinator/service/pool_service.h"
#include "coordinator/service/server_service.h"
#include "coordinator/service/status_pages.h"
#include "coordinator/service/stream_publisher.h"
#include "coordinator/service/sync_service.h"
#include "coordinator/service/upload_service.h"

namespace longhaul::coordinator {
namespace {

constexpr int kTicksPerSecond = 5;
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

void ExitAtOnce(const absl::Status& status) { std::_Exit(1); }

// The uploads of jobs that have not begun. A quarantined job may continue where it was.
std::set<std::string> UploadsNeededBy(const Performer& performer) {
  std::set<std::string> needed;
  for (const std::shared_ptr<LiveJob>& job : performer.All()) {
    const JobState state = job->record.state;
    const bool waits = state < JobState::kRunning || state == JobState::kQuarantined;
    // The stored spec, since this program may not understand all of it.
    v1::JobSpec spec;
    if (waits && spec.ParseFromString(job->record.spec) && spec.init().has_upload())
      needed.insert(spec.init().upload());
  }
  return needed;
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
        own_fs_(options.fs == nullptr ? MakePosixFileSystem() : nullptr),
        fs_(options.fs == nullptr ? own_fs_.get() : options.fs),
        log_(options.log),
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
    LH_ASSIGN_OR_RETURN(meta_, OpenDatabase(*fs_, options.data_dir, log_));
    std::vector<std::string> troubles;
    LH_ASSIGN_OR_RETURN(uploads_, Uploads::Open(fs_, clock_,
                                                {.data_dir = options.data_dir,
                                                 .bytes_max = options.upload_bytes_max,
                                                 .keep = options.upload_keep},
                                                &troubles));
    for (const std::string& trouble : troubles) log_.Warning(trouble);
    LH_ASSIGN_OR_RETURN(RecoveredState recovered, RecoverState(*meta_, clock_->Now(), log_));
    log_.Info(absl::StrCat("found ", recovered.jobs.size(), " jobs that have not ended in ",
                           options.data_dir));
    StartWork(options, std::move(recovered));
    return Serve(options);
  }

  void Shutdown(absl::Duration grace) {
    if (!owner_ || std::exchange(shut_down_, true)) return;
    log_.Info("going down");
    if (server_) server_->SetServing(false);
    log_hub_.EndAll(absl::UnavailableError("the coordinator is going down"));
    EndCalls(absl::UnavailableError("the coordinator is going down"));
    if (server_) server_->Shutdown(grace);
    // Pages use the threads that end below.
    http_server_.reset();
    // No call can come any more. Rounds in progress are finished, but nothing more is decided.
    (void)owner_->Submit([this] { performer_->SaveCounters(); });
    owner_->Stop();
    bulk_.reset();
    beside_.reset();
    withdrawals_.reset();
    apply_.reset();
    opening_.reset();
    background_.reset();
    tracker_.Close("");
    track_.reset();
    log_.Info("state is persisted");
  }

  const std::string& address() const { return server_->address(); }
  std::string http_address() const { return http_server_ ? http_server_->address() : ""; }

 private:
  void StartWork(const CoordinatorServerOptions& options, RecoveredState recovered) {
    apply_ = std::make_unique<Executor>(
        Executor::Options{.threads = kApplyThreads, .queue_max = kQueueMax});
    opening_ = std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax});
    background_ =
        std::make_unique<Executor>(Executor::Options{.threads = 2, .queue_max = kQueueMax});
    bulk_ = std::make_unique<Executor>(
        Executor::Options{.threads = kBulkThreads, .queue_max = kBulkQueueMax});
    beside_ = std::make_unique<Executor>(Executor::Options{.threads = 4, .queue_max = 1024});
    // A folder that hangs may take all threads of the others.
    withdrawals_ = std::make_unique<Executor>(Executor::Options{.threads = 1, .queue_max = 1});
    fragments_ = std::make_unique<Fragments>(Fragments::Options{.data_dir = options.data_dir},
                                             Fragments::Parts{.fs = fs_,
                                                              .arbiter = &arbiter_,
                                                              .apply = apply_.get(),
                                                              .opening = opening_.get(),
                                                              .background = background_.get(),
                                                              .metrics = &fragment_metrics_,
                                                              .log = &log_});
    owner_ = std::make_unique<OwnerThread>(OwnerThread::Options(), clock_, [this] { Tick(); });
    performer_ = std::make_unique<Performer>(
        PerformerOptions{.core = options.core,
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
                       .log = &log_},
        std::move(recovered));
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
    performer_->Tick();
    publisher_.Flush();
    if (++ticks_ % kTicksPerSecond != 0) return;
    plan_streams_.Sweep();
    job_metrics_.Show(*performer_);
    bulk_streams_.With().Set(admission_.streams());
    // Not here, since it reads a file. If there is no room, the next second does it.
    if (tokens_) (void)withdrawals_->Submit([this] { door_->EndWithdrawn(); });
    SweepUploads();
  }

  // Owner thread. Beside it what no job needs any more is removed.
  void SweepUploads() {
    uploads_->SetNeeded(UploadsNeededBy(*performer_));
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
    audit_->Write({.who = "coordinator",
                   .method = "longhaul.v1.JobService/DeleteJob",
                   .job = job,
                   .result = "OK",
                   .message = "it ended long ago (--ended-job-keep)"});
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
    LH_RETURN_IF_ERROR(performer_->health());
    return fragments_->Health();
  }

  absl::Status OpenAccess(const CoordinatorServerOptions& options) {
    if (!options.tokens_file.empty()) {
      LH_ASSIGN_OR_RETURN(tokens_, Tokens::Open("--tokens", options.tokens_file, log_));
    }
    if (!options.audit_log.empty()) {
      LH_ASSIGN_OR_RETURN(audit_, AuditLog::Open(options.audit_log, log_));
    }
    door_ = std::make_shared<Door>(
        Door::Options{.tokens = tokens_.get(), .calls_per_second = options.calls_per_second});
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
      if (guarded) interceptors.push_back(door_->MakeGuard());
      if (audit_) {
        interceptors.push_back(audit_->MakeObserver(
            [this](const grpc::ServerContextBase& call) { return door_->WhoCalls(call); }));
      }
      return interceptors;
    };
    return rpc;
  }

  absl::Status Serve(const CoordinatorServerOptions& options) {
    const ServiceContext service{.owner = owner_.get(),
                                 .performer = performer_.get(),
                                 .plan_streams = &plan_streams_,
                                 .watchers = &watchers_,
                                 .beside = beside_.get(),
                                 .bulk = {.executor = bulk_.get(), .admission = &admission_},
                                 .uploads = uploads_.get(),
                                 .certificates = options.tls != nullptr,
                                 .door = options.tls ? door_.get() : nullptr,
                                 .memory = options.core.memory,
                                 .import_dir = options.import_dir};
    LH_RETURN_IF_ERROR(ServeCalls(options, service));
    return options.http_listen.empty() ? absl::OkStatus() : ServePages(options, service);
  }

  absl::Status ServeCalls(const CoordinatorServerOptions& options, const ServiceContext& service) {
    job_service_ = std::make_unique<JobService>(service);
    upload_service_ = std::make_unique<UploadService>(service, &upload_metrics_);
    pool_service_ = std::make_unique<PoolService>(service, registry_);
    sync_service_ = std::make_unique<SyncService>(service);
    log_service_ = std::make_unique<LogService>(&log_hub_, service.certificates, service.door);
    server_service_ = std::make_unique<ServerService>(ServerFacts{
        .clock = clock_,
        .started = clock_->Now(),
        .data_dir = options.data_dir,
        .ready = [this] { return Health(); },
        .http_address = [this] { return shows_pages_ ? http_address() : std::string(); },
        .http_tls = options.http_tls,
        .door = service.door});
    LH_ASSIGN_OR_RETURN(
        server_, OfFlag("--listen", Server::Start(RpcOptions(options),
                                                  {job_service_.get(), upload_service_.get(),
                                                   pool_service_.get(), sync_service_.get(),
                                                   server_service_.get(), log_service_.get()})));
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

  // What ends one day: the room on the disk, and the certificate.
  void AddSystemMetrics(const CoordinatorServerOptions& options) {
    const auto space = [folder =
                            options.data_dir](std::uintmax_t std::filesystem::space_info::*of) {
      return [folder, of]() -> std::optional<double> {
        std::error_code error;
        const std::filesystem::space_info found = std::filesystem::space(folder, error);
        return error ? std::nullopt : std::optional(static_cast<double>(found.*of));
      };
    };
    registry_.Gauge("longhaul_coordinator_data_free_bytes",
                    "Free on the file system of --data-dir.",
                    space(&std::filesystem::space_info::available));
    registry_.Gauge("longhaul_coordinator_data_size_bytes",
                    "Size of the file system of --data-dir.",
                    space(&std::filesystem::space_info::capacity));
    if (tokens_ != nullptr) {
      registry_.Gauge("longhaul_coordinator_tokens_refused",
                      "1: the file of --tokens cannot be used as it is now. Users that were read "
                      "before stay for 10 minutes.",
                      [tokens = tokens_.get()] { return tokens->refused() ? 1. : 0.; });
    }
    if (options.tls == nullptr) return;
    registry_.Gauge("longhaul_coordinator_certificate_expiry_timestamp_seconds",
                    "When the certificate in use, of --tls-certificate, ends, since 1970.",
                    [tls = options.tls] { return CertificateExpirySeconds(*tls); });
    registry_.Gauge("longhaul_coordinator_tls_files_refused",
                    "1: the files of --tls-ca, --tls-certificate and --tls-key cannot be used as "
                    "they are now. Those that were read before are in use.",
                    [tls = options.tls] { return tls->files().refused() ? 1. : 0.; });
  }

  const std::unique_ptr<Clock> own_clock_;
  Clock* const clock_;
  const std::unique_ptr<FileSystem> own_fs_;
  FileSystem* const fs_;
  const Logger log_;
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
  std::unique_ptr<Executor> apply_, opening_, background_, bulk_, beside_, withdrawals_;
  std::unique_ptr<OwnerThread> owner_;
  std::unique_ptr<JobService> job_service_;
  std::unique_ptr<UploadService> upload_service_;
  std::unique_ptr<PoolService> pool_service_;
  std::unique_ptr<SyncService> sync_service_;
  std::unique_ptr<ServerService> server_service_;
  std::unique_ptr<LogService> log_service_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<HttpServer> http_server_;
  // True once http_server_ exists.
  std::atomic<bool> shows_pages_ = false;
  // Owner thread.
  bool started_ = false;
  int64_t ticks_ = 0;
  bool shut_down_ = false;
};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorServerOptions options) {
  if (options.core.memory == 0) options.core.memory = DefaultMemory();
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

void CoordinatorServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace longhaul::coordinator
