#include "common/rpc/certificate_dates.h"

#include <time.h>

#include <optional>

#include "absl/strings/str_cat.h"
#include "common/rpc/openssl_ptr.h"
#include "openssl/err.h"
#include "openssl/pem.h"

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
  const BioPtr file(BIO_new_file(path.c_str(), "r"));
  if (file == nullptr) {
    ERR_clear_error();
    return absl::NotFoundError(absl::StrCat(path, " cannot be read"));
  }
  std::optional<CertificateDates> first;
  while (const CertificatePtr next{PEM_read_bio_X509(file.get(), nullptr, nullptr, nullptr)}) {
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
