#include "common/rpc/tls.h"

#include <utility>

#include "common/base/status_macros.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace longhaul {

namespace tls = grpc::experimental;

namespace {

// How often gRPC looks at the copies, in seconds.
constexpr unsigned kCopiesEach = 1;

}  // namespace

absl::StatusOr<std::shared_ptr<const Tls>> Tls::Load(const TlsFiles& files,
                                                     const Options& options) {
  LH_ASSIGN_OR_RETURN(
      std::unique_ptr<TlsReload> reload,
      TlsReload::Start({.files = files, .every = options.refresh, .log = options.log}));
  return std::shared_ptr<const Tls>(new Tls(std::move(reload)));
}

absl::StatusOr<std::shared_ptr<const Tls>> Tls::LoadAuthorities(const std::string& ca) {
  LH_ASSIGN_OR_RETURN(std::unique_ptr<TlsReload> reload,
                      TlsReload::Start({.files = {.ca = ca}, .authorities_only = true}));
  return std::shared_ptr<const Tls>(new Tls(std::move(reload)));
}

Tls::Tls(std::unique_ptr<TlsReload> files)
    : files_(std::move(files)),
      watcher_(std::make_shared<tls::FileWatcherCertificateProvider>(
          files_->identity_path(), files_->identity_path(), files_->ca_path(), kCopiesEach)) {
  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(watcher_);
  channel.watch_root_certs();
  if (!files_->identity_path().empty()) channel.watch_identity_key_cert_pairs();
  channel_ = tls::TlsCredentials(channel);
}

std::shared_ptr<grpc::ServerCredentials> Tls::MakeServer(ClientCertificates clients) const {
  tls::TlsServerCredentialsOptions server(watcher_);
  server.watch_root_certs();
  server.watch_identity_key_cert_pairs();
  server.set_cert_request_type(clients == ClientCertificates::kRequired
                                   ? GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY
                                   : GRPC_SSL_REQUEST_CLIENT_CERTIFICATE_AND_VERIFY);
  return tls::TlsServerCredentials(server);
}

std::optional<double> CertificateExpirySeconds(const Tls& tls) {
  const std::optional<absl::Time> until = tls.files().certificate_until();
  if (!until.has_value()) return std::nullopt;
  return absl::ToDoubleSeconds(*until - absl::UnixEpoch());
}

absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files,
                                                          const std::optional<Logger>& log) {
  if (files.empty()) return nullptr;
  return Tls::Load(files, {.log = log});
}

}  // namespace longhaul
