#include "coordinator/server/server.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/metrics/registry.h"
#include "common/metrics/server.h"
#include "common/rpc/server.h"
#include "coordinator/service/job_service.h"
#include "coordinator/service/pool_service.h"
#include "coordinator/service/runtime.h"
#include "coordinator/service/sync_service.h"

namespace longhaul::coordinator {
namespace {

void ExitAtOnce(const absl::Status& status) { std::_Exit(1); }

absl::StatusOr<MetricsServer::Options> MetricsOptions(const std::string& listen) {
  const size_t colon = listen.rfind(':');
  MetricsServer::Options options;
  if (colon == std::string::npos || !absl::SimpleAtoi(listen.substr(colon + 1), &options.port)) {
    return absl::InvalidArgumentError(
        absl::StrCat("metrics address \"", listen, "\" is not HOST:PORT"));
  }
  options.address = listen.substr(0, colon);
  if (options.address == "localhost") options.address = "127.0.0.1";
  return options;
}

absl::StatusOr<std::unique_ptr<MetaStore>> OpenMeta(FileSystem& fs, const std::string& data_dir) {
  LH_RETURN_IF_ERROR(CreateDirs(fs, JoinPath(data_dir, "jobs")));
  absl::StatusOr<std::unique_ptr<MetaStore>> meta =
      MetaStore::Open(JoinPath(data_dir, "coordinator.db"));
  if (!absl::IsUnavailable(meta.status())) return meta;
  return absl::UnavailableError(absl::StrCat("another coordinator uses the data folder ", data_dir,
                                             ": ", meta.status().message()));
}

}  // namespace

// In the order of construction; destroyed the other way round.
class CoordinatorServer::Impl {
 public:
  explicit Impl(const CoordinatorServerOptions& options)
      : own_clock_(options.clock == nullptr ? MakeSystemClock() : nullptr),
        clock_(options.clock == nullptr ? own_clock_.get() : options.clock),
        own_fs_(options.fs == nullptr ? MakePosixFileSystem() : nullptr),
        fs_(options.fs == nullptr ? own_fs_.get() : options.fs),
        log_(options.log),
        metrics_(registry_) {}

  absl::Status Start(const CoordinatorServerOptions& options) {
    if (options.data_dir.empty()) return absl::InvalidArgumentError("a data folder is required");
    LH_ASSIGN_OR_RETURN(meta_, OpenMeta(*fs_, options.data_dir));
    LH_ASSIGN_OR_RETURN(RecoveredState recovered,
                        RecoverState(*meta_, *fs_, options.data_dir, log_));
    log_.Info(
        absl::StrCat("recovered ", recovered.jobs.size(), " live jobs from ", options.data_dir));
    runtime_ = std::make_unique<Runtime>(
        RuntimeOptions{.core = options.core,
                       .data_dir = options.data_dir,
                       .apply_threads = options.apply_threads,
                       .bulk_threads = options.bulk_threads,
                       .on_fatal = options.on_fatal ? options.on_fatal : ExitAtOnce},
        RuntimeParts{
            .fs = fs_, .clock = clock_, .meta = meta_.get(), .metrics = &metrics_, .log = &log_},
        std::move(recovered));
    return Serve(options);
  }

  void Shutdown(absl::Duration grace) {
    if (!server_ || std::exchange(shut_down_, true)) return;
    log_.Info("going down");
    server_->SetServing(false);
    runtime_->EndStreams(absl::UnavailableError("the coordinator is going down"));
    server_->Shutdown(grace);
    runtime_->Stop();
    log_.Info("state is persisted");
  }

  const std::string& address() const { return server_->address(); }
  const std::string& metrics_address() const { return metrics_address_; }

 private:
  absl::Status Serve(const CoordinatorServerOptions& options) {
    jobs_ = std::make_unique<JobService>(runtime_.get());
    pools_ = std::make_unique<PoolService>(runtime_.get());
    sync_ = std::make_unique<SyncService>(runtime_.get());
    LH_ASSIGN_OR_RETURN(server_, Server::Start({.address = options.listen,
                                                .tls = options.tls,
                                                .allow_plaintext_beyond_localhost =
                                                    options.allow_plaintext_beyond_localhost},
                                               {jobs_.get(), pools_.get(), sync_.get()}));
    if (options.metrics_listen.empty()) return absl::OkStatus();
    LH_ASSIGN_OR_RETURN(const MetricsServer::Options metrics,
                        MetricsOptions(options.metrics_listen));
    LH_ASSIGN_OR_RETURN(metrics_server_, MetricsServer::Start(metrics, registry_, [this] {
                          return runtime_->halted() ? absl::UnavailableError("halted")
                                                    : absl::OkStatus();
                        }));
    metrics_address_ = absl::StrCat(metrics.address, ":", metrics_server_->port());
    return absl::OkStatus();
  }

  const std::unique_ptr<Clock> own_clock_;
  Clock* const clock_;
  const std::unique_ptr<FileSystem> own_fs_;
  FileSystem* const fs_;
  const Logger log_;
  MetricRegistry registry_;
  CoordinatorMetrics metrics_;
  std::unique_ptr<MetaStore> meta_;
  std::unique_ptr<Runtime> runtime_;
  std::unique_ptr<JobService> jobs_;
  std::unique_ptr<PoolService> pools_;
  std::unique_ptr<SyncService> sync_;
  std::unique_ptr<Server> server_;
  std::unique_ptr<MetricsServer> metrics_server_;
  std::string metrics_address_;
  bool shut_down_ = false;
};

absl::StatusOr<std::unique_ptr<CoordinatorServer>> CoordinatorServer::Start(
    CoordinatorServerOptions options) {
  auto impl = std::make_unique<Impl>(options);
  const absl::Status started = impl->Start(options);
  std::unique_ptr<CoordinatorServer> server(new CoordinatorServer(std::move(impl)));
  if (!started.ok()) return started;
  return server;
}

CoordinatorServer::CoordinatorServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

CoordinatorServer::~CoordinatorServer() { Shutdown(absl::ZeroDuration()); }

const std::string& CoordinatorServer::address() const { return impl_->address(); }
const std::string& CoordinatorServer::metrics_address() const { return impl_->metrics_address(); }

void CoordinatorServer::Shutdown(absl::Duration grace) { impl_->Shutdown(grace); }

}  // namespace longhaul::coordinator
