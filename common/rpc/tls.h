// Mutual TLS for channels and servers. Each end shows a certificate, and accepts only one that an
// authority of its own file has signed. A client also requires that the server's certificate is for
// the host that it dialled. Programs of this project use TLS 1.3 between them.
//
// The files are read again while the process lives. New connections use the new files; open ones
// stay as they are. While the new files cannot be used, as half a file, or a certificate whose key
// is not there yet, new connections use the last good ones (common/rpc/tls_reload.h).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "common/rpc/tls_files.h"
#include "common/rpc/tls_reload.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"

namespace longhaul {

// Whether a server accepts a client without a certificate, which must then be identified by other
// means. A certificate that is shown is always verified.
enum class ClientCertificates { kRequired, kOptional };

// Thread-safe. A process has one: all its channels and servers share it, its credentials, and the
// threads that watch the files. They keep it alive.
class Tls {
 public:
  struct Options {
    // How often the files are looked at.
    absl::Duration refresh = absl::Seconds(10);
    // What is said of files that are replaced. Empty: nothing is.
    std::optional<Logger> log;
  };

  // Errors: those of TlsReload::Start.
  static absl::StatusOr<std::shared_ptr<const Tls>> Load(const TlsFiles& files,
                                                         const Options& options);
  static absl::StatusOr<std::shared_ptr<const Tls>> Load(const TlsFiles& files) {
    return Load(files, Options());
  }

  // For a client that shows no certificate and only verifies the server's. Errors: those of
  // TlsReload::Start.
  static absl::StatusOr<std::shared_ptr<const Tls>> LoadAuthorities(const std::string& ca);

  const TlsReload& files() const { return *files_; }
  const std::shared_ptr<grpc::ChannelCredentials>& channel() const { return channel_; }
  // Credentials for one server. Not possible after LoadAuthorities.
  std::shared_ptr<grpc::ServerCredentials> MakeServer(ClientCertificates clients) const;

 private:
  explicit Tls(std::unique_ptr<TlsReload> files);

  const std::unique_ptr<TlsReload> files_;
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface> watcher_;
  std::shared_ptr<grpc::ChannelCredentials> channel_;
};

// When the certificate in use ends, for a metric, in seconds since 1970.
std::optional<double> CertificateExpirySeconds(const Tls& tls);

// For flags: null if no file is given.
absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files,
                                                          const std::optional<Logger>& log = {});

}  // namespace longhaul
