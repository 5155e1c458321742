// A small private authority: a folder with ca.pem, ca.key, its revocation list ca.crl and what it
// issued, as NAME.pem and NAME.key. P-256 keys; keys are mode 0600; no file but ca.crl is ever
// overwritten. By OpenSSL.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul::cli {

// How long certificates are valid by default.
inline constexpr int kAuthorityDays = 3650, kCertificateDays = 365;

// For whom a certificate is. This decides which names it has, and whether a client or a server may
// use it.
enum class CertificateKind {
  // First DNS name: the pool's. Workers use it as clients, and inside the pool.
  kPool,
  // For the names that clients dial. Only a server may use it.
  kCoordinator,
  // No DNS name, so it acts for no pool. Only a client may use it.
  kUser,
};

struct CertificateRequest {
  CertificateKind kind = CertificateKind::kPool;
  // Of the pool or user; the host that is dialled.
  std::string name;
  // Further names and addresses of a coordinator.
  std::vector<std::string> hosts;
  int days = kCertificateDays;
};

struct CertificateFiles {
  std::string certificate, key;
  // Of its validity.
  absl::Time end;
};

// Errors of all functions: INVALID_ARGUMENT, an argument is malformed; ALREADY_EXISTS, the message
// names the file; NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE of the folder's files. They block on
// the disk.

// Writes a new file of this mode, durably. ALREADY_EXISTS: it is not overwritten.
absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode);

// Makes the folder if it is not there (its parent must be), mode 0700.
absl::StatusOr<CertificateFiles> InitAuthority(const std::string& folder, int days);

//   FAILED_PRECONDITION  the authority ends before the certificate would
absl::StatusOr<CertificateFiles> IssueCertificate(const std::string& folder,
                                                  const CertificateRequest& request);

// What the authority issued under this name. Without its key: it is another machine's.
absl::StatusOr<CertificateFiles> ReadCertificate(const std::string& folder,
                                                 const std::string& name);

// Adds the certificate of this name to the revocation list, and moves its files to
// NAME.SERIAL.revoked.*, so that another one can be issued. Returns the certificate's new place.
absl::StatusOr<CertificateFiles> RevokeCertificate(const std::string& folder,
                                                   const std::string& name);
// Of an authority.
std::string RevocationListOf(const std::string& folder);

}  // namespace longhaul::cli
