// From when to when a certificate is valid.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

struct CertificateDates {
  // Its common name, or its whole subject.
  std::string subject;
  absl::Time from, until;
};

// The dates of the certificate that ends first, of those in the PEM file. Blocks on the file
// system.
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  it cannot be opened
//   INVALID_ARGUMENT  it has no certificate in PEM, or one with an invalid date
absl::StatusOr<CertificateDates> DatesOfCertificate(const std::string& path);

// Likewise, of the text of a file that was read; `path` is for messages. INVALID_ARGUMENT as above.
absl::StatusOr<CertificateDates> DatesInPem(const std::string& text, const std::string& path);

}  // namespace longhaul
