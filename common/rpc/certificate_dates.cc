#include "common/rpc/certificate_dates.h"

#include <time.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/pem_file.h"
#include "openssl/err.h"

namespace longhaul {
namespace {

std::optional<absl::Time> TimeOf(const ASN1_TIME* time) {
  tm fields{};
  if (ASN1_TIME_to_tm(time, &fields) != 1) return std::nullopt;
  return absl::FromTM(fields, absl::UTCTimeZone());
}

std::string SubjectOf(X509* certificate) {
  char text[256] = "";
  X509_NAME* name = X509_get_subject_name(certificate);
  if (X509_NAME_get_text_by_NID(name, NID_commonName, text, sizeof(text)) > 0) return text;
  X509_NAME_oneline(name, text, sizeof(text));
  return text;
}

}  // namespace

absl::StatusOr<CertificateDates> DatesOfCertificate(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadPem(path, path));
  return DatesInPem(text, path);
}

absl::StatusOr<CertificateDates> DatesInPem(const std::string& text, const std::string& path) {
  const BioPtr file = ReaderOf(text);
  std::optional<CertificateDates> first;
  while (const CertificatePtr next = NextCertificate(file.get())) {
    const auto from = TimeOf(X509_get0_notBefore(next.get()));
    const auto until = TimeOf(X509_get0_notAfter(next.get()));
    if (!from || !until)
      return absl::InvalidArgumentError(absl::StrCat(path, ": a certificate without dates"));
    if (!first || *until < first->until) first = {SubjectOf(next.get()), *from, *until};
  }
  ERR_clear_error();
  if (first) return *std::move(first);
  return absl::InvalidArgumentError(absl::StrCat(path, " has no certificate in PEM"));
}

}  // namespace longhaul
