#include "common/rpc/tls.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace longhaul {

namespace tls = grpc::experimental;

absl::StatusOr<std::shared_ptr<const Tls>> Tls::Load(const TlsFiles& files,
                                                     absl::Duration refresh) {
  // gRPC only logs an error in a file, and then refuses every connection. So the files are checked
  // first.
  LH_RETURN_IF_ERROR(CheckTlsFiles(files));
  return std::shared_ptr<const Tls>(new Tls(files, refresh));
}

absl::StatusOr<std::shared_ptr<const Tls>> Tls::LoadAuthorities(const std::string& ca) {
  LH_RETURN_IF_ERROR(CheckAuthorities(ca));
  return std::shared_ptr<const Tls>(new Tls({.ca = ca}, absl::Minutes(1)));
}

Tls::Tls(const TlsFiles& files, absl::Duration refresh)
    : files_(files),
      watcher_(std::make_shared<tls::FileWatcherCertificateProvider>(
          files.key, files.certificate, files.ca,
          static_cast<unsigned>(std::max<int64_t>(1, absl::ToInt64Seconds(refresh))))) {
  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(watcher_);
  channel.watch_root_certs();
  if (!files.certificate.empty()) channel.watch_identity_key_cert_pairs();
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

absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files) {
  if (files.empty()) return nullptr;
  return Tls::Load(files);
}

}  // namespace longhaul
