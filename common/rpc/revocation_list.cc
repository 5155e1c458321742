#include "common/rpc/revocation_list.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/rpc/pem_file.h"
#include "openssl/err.h"
#include "openssl/pem.h"

namespace longhaul {
namespace {

bool IsSignedBy(X509_CRL* list, const std::string& ca) {
  const BioPtr file = ReaderOf(ca);
  bool found = false;
  while (const CertificatePtr authority = NextCertificate(file.get())) {
    const bool named =
        X509_NAME_cmp(X509_get_subject_name(authority.get()), X509_CRL_get_issuer(list)) == 0;
    found |= named && X509_CRL_verify(list, X509_get0_pubkey(authority.get())) == 1;
  }
  ERR_clear_error();
  return found;
}

}  // namespace

absl::StatusOr<RevocationList> RevocationList::Parse(const std::string& text, const std::string& ca,
                                                     absl::string_view shown) {
  RevocationList result;
  const BioPtr file = ReaderOf(text);
  while (RevocationsPtr list{PEM_read_bio_X509_CRL(file.get(), nullptr, NoPassword, nullptr)}) {
    if (!IsSignedBy(list.get(), ca)) {
      return absl::InvalidArgumentError(
          absl::StrCat(shown, " is not signed by an authority of --tls-ca"));
    }
    result.lists_.push_back(std::move(list));
  }
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (!result.lists_.empty() && at_end) return result;
  return absl::InvalidArgumentError(absl::StrCat(shown, result.lists_.empty()
                                                            ? " has no revocation list in PEM"
                                                            : " has a damaged revocation list"));
}

bool RevocationList::Contains(X509* certificate) const {
  return std::any_of(lists_.begin(), lists_.end(), [certificate](const RevocationsPtr& list) {
    X509_REVOKED* entry = nullptr;
    const bool of_issuer =
        X509_NAME_cmp(X509_get_issuer_name(certificate), X509_CRL_get_issuer(list.get())) == 0;
    // 2: it was on hold, and is not any more.
    return of_issuer && X509_CRL_get0_by_cert(list.get(), &entry, certificate) == 1;
  });
}

}  // namespace longhaul
