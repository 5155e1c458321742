#include "common/rpc/tls_files.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/rpc/openssl_ptr.h"
#include "common/rpc/pem_file.h"
#include "common/rpc/revocation_list.h"
#include "common/rpc/secret_file.h"
#include "openssl/crypto.h"
#include "openssl/err.h"
#include "openssl/pem.h"

namespace longhaul {
namespace {

constexpr int64_t kKeyBytesMax = 1 << 20;

absl::Status CheckGiven(const std::string& flag, const std::string& path) {
  if (!path.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("TLS needs ", flag, " too: the authority's, this end's certificate, its key"));
}

absl::StatusOr<std::string> ReadCertificateFile(const std::string& flag, const std::string& path) {
  LH_RETURN_IF_ERROR(CheckGiven(flag, path));
  return ReadPem(path, absl::StrCat(flag, " ", path));
}

// All certificates of a file with this text, at least one.
absl::StatusOr<std::vector<CertificatePtr>> ParseCertificates(const std::string& flag,
                                                              const std::string& path,
                                                              const std::string& text) {
  const BioPtr file = ReaderOf(text);
  std::vector<CertificatePtr> result;
  while (CertificatePtr next = NextCertificate(file.get())) result.push_back(std::move(next));
  const bool at_end = ERR_GET_REASON(ERR_peek_last_error()) == PEM_R_NO_START_LINE;
  ERR_clear_error();
  if (result.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, " has no certificate in PEM"));
  }
  if (!at_end) {
    return absl::InvalidArgumentError(absl::StrCat(flag, " ", path, ": certificate ",
                                                   result.size() + 1, " of the file is damaged"));
  }
  return result;
}

absl::StatusOr<KeyPtr> ParseKey(const std::string& flag, const std::string& path,
                                const std::string& text) {
  KeyPtr key(PEM_read_bio_PrivateKey(ReaderOf(text).get(), nullptr, NoPassword, nullptr));
  ERR_clear_error();
  if (key != nullptr) return key;
  return absl::InvalidArgumentError(
      absl::StrCat(flag, " ", path, " has no private key in PEM without a password"));
}

std::string TimeText(const ASN1_TIME* time) {
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (time != nullptr) ASN1_TIME_print(text.get(), time);
  return ContentOf(text.get());
}

// Every peer would refuse an expired certificate. An error here can name the file.
absl::Status CheckValidity(const X509* certificate, const std::string& path) {
  const ASN1_TIME* const begin = X509_get0_notBefore(certificate);
  const ASN1_TIME* const end = X509_get0_notAfter(certificate);
  if (X509_cmp_current_time(end) < 0) {
    return absl::UnauthenticatedError(
        absl::StrCat("--tls-certificate ", path, " expired on ", TimeText(end),
                     ": issue a new one (longhaul certs issue), or correct this machine's clock"));
  }
  if (X509_cmp_current_time(begin) > 0) {
    return absl::UnauthenticatedError(absl::StrCat("--tls-certificate ", path,
                                                   " is valid only from ", TimeText(begin),
                                                   ": is this machine's clock right?"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TlsContents> ReadAuthorities(const std::string& ca) {
  TlsContents contents;
  LH_ASSIGN_OR_RETURN(contents.ca, ReadCertificateFile("--tls-ca", ca));
  LH_RETURN_IF_ERROR(ParseCertificates("--tls-ca", ca, contents.ca).status());
  return contents;
}

absl::StatusOr<TlsContents> ReadTlsFiles(const TlsFiles& files) {
  LH_ASSIGN_OR_RETURN(TlsContents contents, ReadAuthorities(files.ca));
  LH_ASSIGN_OR_RETURN(contents.certificate,
                      ReadCertificateFile("--tls-certificate", files.certificate));
  LH_ASSIGN_OR_RETURN(
      const std::vector<CertificatePtr> chain,
      ParseCertificates("--tls-certificate", files.certificate, contents.certificate));
  LH_RETURN_IF_ERROR(CheckGiven("--tls-key", files.key));
  LH_ASSIGN_OR_RETURN(contents.key, ReadSecretFile("--tls-key", files.key, kKeyBytesMax));
  LH_ASSIGN_OR_RETURN(const KeyPtr key, ParseKey("--tls-key", files.key, contents.key));
  const bool match = X509_check_private_key(chain.front().get(), key.get()) == 1;
  ERR_clear_error();
  if (!match) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--tls-key ", files.key, " is not the key of --tls-certificate ", files.certificate,
        ": give the key that belongs to this certificate (longhaul certs issue writes both)"));
  }
  LH_RETURN_IF_ERROR(CheckValidity(chain.front().get(), files.certificate));
  if (files.crl.empty()) return contents;
  const std::string shown = absl::StrCat("--tls-crl ", files.crl);
  LH_ASSIGN_OR_RETURN(contents.crl, ReadPem(files.crl, shown));
  LH_RETURN_IF_ERROR(RevocationList::Parse(contents.crl, contents.ca, shown).status());
  return contents;
}

absl::StatusOr<std::string> NameInCertificate(const TlsFiles& files) {
  LH_ASSIGN_OR_RETURN(const TlsContents contents, ReadTlsFiles(files));
  LH_ASSIGN_OR_RETURN(
      const std::vector<CertificatePtr> chain,
      ParseCertificates("--tls-certificate", files.certificate, contents.certificate));
  X509* certificate = chain.front().get();
  const auto refuse = [&](absl::string_view why) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat("--tls-certificate ", files.certificate, " ", why));
  };
  if (X509_check_purpose(certificate, X509_PURPOSE_SSL_SERVER, 0) != 1)
    return refuse("cannot be used by a server: its extended key usage lacks serverAuth");
  const NamesPtr names(static_cast<GENERAL_NAMES*>(
      X509_get_ext_d2i(certificate, NID_subject_alt_name, nullptr, nullptr)));
  const int count = names == nullptr ? 0 : sk_GENERAL_NAME_num(names.get());
  for (int i = 0; i < count; ++i) {
    const GENERAL_NAME* name = sk_GENERAL_NAME_value(names.get(), i);
    if (name->type != GEN_DNS) continue;
    const auto* text = reinterpret_cast<const char*>(ASN1_STRING_get0_data(name->d.dNSName));
    return std::string(text, ASN1_STRING_length(name->d.dNSName));
  }
  return refuse("has no DNS name among its subject alternative names");
}

}  // namespace longhaul
