// The files of one end of mutual TLS, and what is wrong with them in words that name the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Paths of PEM files.
struct TlsFiles {
  std::string ca;           // The authorities whose certificates are accepted from peers.
  std::string certificate;  // Of this end, then intermediate ones, if any.
  std::string key;          // The certificate's private key, not encrypted.

  bool empty() const { return ca.empty() && certificate.empty() && key.empty(); }
};

// Reads all of them. Blocks on the file system.
//   INVALID_ARGUMENT  a path is not given; a file is not PEM of its kind, or damaged; the key is
//                     encrypted, or of another certificate
//   UNAUTHENTICATED   the certificate has expired, or is not valid yet
//   NOT_FOUND         a file is not there
//   PERMISSION_DENIED, UNAVAILABLE  a file cannot be read
absl::Status CheckTlsFiles(const TlsFiles& files);

// The first of them alone.
absl::Status CheckAuthorities(const std::string& ca);

// The first DNS name that the certificate is for: what programs that show the same certificate, or
// certificates with this name, ask of each other where addresses are in none. Also the errors of
// CheckTlsFiles.
//   FAILED_PRECONDITION  it has no DNS name, or may not be shown by a server
absl::StatusOr<std::string> NameInCertificate(const TlsFiles& files);

}  // namespace longhaul
