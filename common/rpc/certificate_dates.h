// When a certificate is valid.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace longhaul {

struct CertificateDates {
  std::string subject;  // Its common name, or its whole subject.
  absl::Time from, until;
};

// Of the certificate in the PEM file that ends first. Blocks on the file system.
//   NOT_FOUND         there is no such file
//   INVALID_ARGUMENT  it has no certificate in PEM, or one with a date that is none
absl::StatusOr<CertificateDates> DatesOfCertificate(const std::string& path);

}  // namespace longhaul
