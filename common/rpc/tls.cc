#include "common/rpc/tls.h"

#include <algorithm>

#include "common/base/status_macros.h"
#include "grpcpp/security/tls_certificate_provider.h"
#include "grpcpp/security/tls_credentials_options.h"

namespace longhaul {

namespace tls = grpc::experimental;

absl::StatusOr<std::shared_ptr<const Tls>> Tls::Load(const TlsFiles& files,
                                                     absl::Duration refresh) {
  // gRPC only logs what is wrong with a file, and then refuses every connection.
  LH_RETURN_IF_ERROR(CheckTlsFiles(files));
  return std::shared_ptr<const Tls>(new Tls(files, refresh));
}

Tls::Tls(const TlsFiles& files, absl::Duration refresh) {
  const auto seconds = std::max<int64_t>(1, absl::ToInt64Seconds(refresh));
  const auto watcher = std::make_shared<tls::FileWatcherCertificateProvider>(
      files.key, files.certificate, files.ca, static_cast<unsigned>(seconds));

  tls::TlsChannelCredentialsOptions channel;
  channel.set_certificate_provider(watcher);
  channel.watch_root_certs();
  channel.watch_identity_key_cert_pairs();
  channel_ = tls::TlsCredentials(channel);

  tls::TlsServerCredentialsOptions server(watcher);
  server.watch_root_certs();
  server.watch_identity_key_cert_pairs();
  server.set_cert_request_type(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  server_ = tls::TlsServerCredentials(server);
}

absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files) {
  if (files.empty()) return nullptr;
  return Tls::Load(files);
}

}  // namespace longhaul
