// From when to when a certificate is valid.
#pragma once

#include <optional>
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

// Its `until` for a metric, in seconds since 1970. Empty: the file cannot be used.
std::optional<double> CertificateExpirySeconds(const std::string& path);

}  // namespace longhaul
