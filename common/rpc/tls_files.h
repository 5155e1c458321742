// The files of one end of mutual TLS. Errors say what is wrong with them and name the file.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace longhaul {

// Paths of PEM files.
struct TlsFiles {
  // The authorities whose certificates are accepted from peers.
  std::string ca;
  // The certificate of this end, then intermediate ones, if any.
  std::string certificate;
  // The certificate's private key, not encrypted. Other users cannot read it (secret_file.h).
  std::string key;
  // Of a server: lists of certificates that the authorities have revoked. Empty: there is none.
  std::string crl;

  bool empty() const { return ca.empty() && certificate.empty() && key.empty() && crl.empty(); }
};

// What the files hold, in PEM.
struct TlsContents {
  std::string ca, certificate, key, crl;

  friend bool operator==(const TlsContents&, const TlsContents&) = default;
};

// Reads all files, and checks that a peer could accept them. Blocks on the file system.
//   INVALID_ARGUMENT     a path is not given; a file is not PEM of its kind, or damaged; the key is
//                        encrypted, or of another certificate; a list is of another authority
//   UNAUTHENTICATED      the certificate has expired, or is not valid yet
//   NOT_FOUND            a file does not exist
//   FAILED_PRECONDITION  others may read or write the key; the message has the command that
//                        corrects it
//   PERMISSION_DENIED, UNAVAILABLE  a file cannot be read
absl::StatusOr<TlsContents> ReadTlsFiles(const TlsFiles& files);

// Only the first file.
absl::StatusOr<TlsContents> ReadAuthorities(const std::string& ca);

// The first DNS name of the certificate. Programs with the same certificate, or with certificates
// of this name, require it of each other if no certificate contains addresses. Errors: those of
// ReadTlsFiles, and
//   INVALID_ARGUMENT  it has no DNS name, or a server may not show it
absl::StatusOr<std::string> NameInCertificate(const TlsFiles& files);

}  // namespace longhaul
