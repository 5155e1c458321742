// Mutual TLS for channels and servers. Each end shows a certificate, and accepts only one that an
// authority of its own file has signed. A client also requires that the server's certificate is for
// the host that it dialled. Programs of this project use TLS 1.3 between them.
//
// The files are read again while the process lives. New connections use the new files; open ones
// stay as they are. Replace certificate and key together (a folder behind a symbolic link, or both
// files within one interval): while they do not match, new connections fail and are tried again.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"

namespace longhaul {

// Whether a server accepts a client without a certificate, which must then be identified by other
// means. A certificate that is shown is always verified.
enum class ClientCertificates { kRequired, kOptional };

// Thread-safe. A process has one: all its channels and servers share the credentials, and the
// thread that watches the files.
class Tls {
 public:
  // `refresh`: how often the files are looked at, in whole seconds, at least 1. Errors: those of
  // CheckTlsFiles.
  static absl::StatusOr<std::shared_ptr<const Tls>> Load(const TlsFiles& files,
                                                         absl::Duration refresh = absl::Minutes(1));

  // For a client that shows no certificate and only verifies the server's. Errors: those of
  // CheckAuthorities.
  static absl::StatusOr<std::shared_ptr<const Tls>> LoadAuthorities(const std::string& ca);

  const TlsFiles& files() const { return files_; }
  const std::shared_ptr<grpc::ChannelCredentials>& channel() const { return channel_; }
  // Credentials for one server. Not possible after LoadAuthorities.
  std::shared_ptr<grpc::ServerCredentials> MakeServer(ClientCertificates clients) const;

 private:
  Tls(const TlsFiles& files, absl::Duration refresh);

  const TlsFiles files_;
  const std::shared_ptr<grpc::experimental::CertificateProviderInterface> watcher_;
  std::shared_ptr<grpc::ChannelCredentials> channel_;
};

// For flags: null if no file is given.
absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files);

}  // namespace longhaul
