// A small private authority: a folder with ca.pem, ca.key and what it issued, as NAME.pem and
// NAME.key. P-256 keys; keys are mode 0600; no file is ever overwritten. By OpenSSL.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul::cli {

// How long they are valid, unless the user says otherwise.
inline constexpr int kAuthorityDays = 3650, kCertificateDays = 365;

// Whose certificate it is to be, which decides its names and what it may be shown as.
enum class CertificateKind {
  kPool,         // First DNS name: the pool's. Shown by workers as clients, and inside the pool.
  kCoordinator,  // For the names that clients dial. Shown by a server alone.
  kUser,         // No DNS name, so it acts for no pool. Shown by a client alone.
};

struct CertificateRequest {
  CertificateKind kind = CertificateKind::kPool;
  std::string name;                // Of the pool or user; the host that is dialled.
  std::vector<std::string> hosts;  // Further names and addresses of a coordinator.
  int days = kCertificateDays;
};

struct CertificateFiles {
  std::string certificate, key;
  absl::Time end;  // Of its validity.
};

// All: INVALID_ARGUMENT, for what is malformed; ALREADY_EXISTS, naming the file that is there;
// NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE, of the folder's files. Block on the file system.

// Makes the folder if it is not there (its parent must be), mode 0700.
absl::StatusOr<CertificateFiles> InitAuthority(const std::string& folder, int days);

//   FAILED_PRECONDITION  the authority ends before the certificate would
absl::StatusOr<CertificateFiles> IssueCertificate(const std::string& folder,
                                                  const CertificateRequest& request);

}  // namespace longhaul::cli
