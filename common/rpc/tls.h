// Mutual TLS for channels and servers: each end shows a certificate and wants to see one that an
// authority of its own file has signed; a client also wants the server's certificate to be for the
// host it dialled. TLS 1.3 between programs of this project.
//
// The files are read again while the process lives: connections that begin later use what is there
// then, those that are open stay. Replace certificate and key together (a folder behind a symbolic
// link, or both files within one interval): while they do not match, new connections fail and are
// tried again.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"
#include "grpcpp/security/credentials.h"
#include "grpcpp/security/server_credentials.h"
#include "grpcpp/security/tls_certificate_provider.h"

namespace longhaul {

// Whether a server lets in a client that shows no certificate, to be known by other means. One that
// is shown is always verified.
enum class ClientCertificates { kRequired, kOptional };

// Thread-safe. One for a process: all its channels and servers share the credentials, and the
// thread that looks after the files.
class Tls {
 public:
  // `refresh`: how often the files are looked at, in whole seconds, at least 1. Errors: those of
  // CheckTlsFiles.
  static absl::StatusOr<std::shared_ptr<const Tls>> Load(const TlsFiles& files,
                                                         absl::Duration refresh = absl::Minutes(1));

  // For a client that shows no certificate: it only verifies the server's. Errors: those of
  // CheckAuthorities.
  static absl::StatusOr<std::shared_ptr<const Tls>> LoadAuthorities(const std::string& ca);

  const std::shared_ptr<grpc::ChannelCredentials>& channel() const { return channel_; }
  // For one server. Not of what LoadAuthorities gave.
  std::shared_ptr<grpc::ServerCredentials> MakeServer(ClientCertificates clients) const;

 private:
  Tls(const TlsFiles& files, absl::Duration refresh);

  const std::shared_ptr<grpc::experimental::CertificateProviderInterface> watcher_;
  std::shared_ptr<grpc::ChannelCredentials> channel_;
};

// For flags: null when no file is given.
absl::StatusOr<std::shared_ptr<const Tls>> LoadTlsIfGiven(const TlsFiles& files);

}  // namespace longhaul
