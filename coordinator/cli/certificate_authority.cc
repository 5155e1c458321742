#include "coordinator/cli/certificate_authority.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "common/base/names.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/io/file_error.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/rpc/openssl_ptr.h"
#include "common/rpc/pem_file.h"
#include "openssl/err.h"
#include "openssl/pem.h"
#include "openssl/rand.h"

namespace longhaul::cli {
namespace {

using ExtensionPtr = OpensslPtr<X509_EXTENSION, X509_EXTENSION_free>;

// Clocks of other machines may be late.
constexpr absl::Duration kBefore = absl::Hours(1);
constexpr size_t kHostMax = 253, kCommonNameMax = 64;
constexpr int kHostsMax = 100;

// A wrong folder is a wrong argument.
absl::Status FileProblem(int error, const std::string& path) {
  const absl::Status status = FileError(error, path);
  return error == ENOTDIR ? absl::InvalidArgumentError(status.message()) : status;
}

absl::Status OpensslProblem(const char* what) {
  const char* const reason = ERR_reason_error_string(ERR_peek_last_error());
  ERR_clear_error();
  return absl::InternalError(
      absl::StrCat(what, ": OpenSSL says ", reason == nullptr ? "nothing" : reason));
}

absl::Status AddExtension(X509* certificate, X509* issuer, int id, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx(&context, issuer, certificate, nullptr, nullptr, 0);
  const ExtensionPtr extension(X509V3_EXT_conf_nid(nullptr, &context, id, value.c_str()));
  if (extension != nullptr && X509_add_ext(certificate, extension.get(), -1) == 1)
    return absl::OkStatus();
  return OpensslProblem("an extension of a certificate");
}

struct Authority {
  CertificatePtr certificate;
  KeyPtr key;
};

struct Extension {
  int id;
  std::string value;
};

// A new key and a certificate of it, written to PATH.pem and PATH.key. Without `authority` it signs
// itself.
absl::StatusOr<CertificateFiles> Make(const std::string& path, const std::string& common_name,
                                      absl::Time end, const std::vector<Extension>& extensions,
                                      const Authority* authority) {
  const KeyPtr key(EVP_EC_gen("P-256"));
  const CertificatePtr made(X509_new());
  X509* const certificate = made.get();
  if (key == nullptr || certificate == nullptr) return OpensslProblem("a key");
  X509* const issuer = authority != nullptr ? authority->certificate.get() : certificate;
  X509_set_version(certificate, X509_VERSION_3);
  std::array<unsigned char, 16> serial;
  if (RAND_bytes(serial.data(), serial.size()) != 1) return OpensslProblem("a serial number");
  serial[0] &= 0x7f;  // Positive.
  const OpensslPtr<BIGNUM, BN_free> number(BN_bin2bn(serial.data(), serial.size(), nullptr));
  BN_to_ASN1_INTEGER(number.get(), X509_get_serialNumber(certificate));
  const absl::Time begin = absl::Now() - kBefore;
  ASN1_TIME_set(X509_getm_notBefore(certificate), absl::ToTimeT(begin));
  ASN1_TIME_set(X509_getm_notAfter(certificate), absl::ToTimeT(end));
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
                             reinterpret_cast<const unsigned char*>(common_name.c_str()), -1, -1,
                             0);
  X509_set_issuer_name(certificate, X509_get_subject_name(issuer));
  if (X509_set_pubkey(certificate, key.get()) != 1) return OpensslProblem("a certificate");
  LH_RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_subject_key_identifier, "hash"));
  LH_RETURN_IF_ERROR(AddExtension(certificate, issuer, NID_authority_key_identifier, "keyid"));
  for (const Extension& extension : extensions) {
    LH_RETURN_IF_ERROR(AddExtension(certificate, issuer, extension.id, extension.value));
  }
  EVP_PKEY* const signer = authority != nullptr ? authority->key.get() : key.get();
  if (X509_sign(certificate, signer, EVP_sha256()) <= 0) return OpensslProblem("a signature");

  const BioPtr key_text(BIO_new(BIO_s_mem())), text(BIO_new(BIO_s_mem()));
  if (PEM_write_bio_PrivateKey(key_text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) !=
          1 ||
      PEM_write_bio_X509(text.get(), certificate) != 1) {
    return OpensslProblem("PEM");
  }
  CertificateFiles files{path + ".pem", path + ".key", end};
  LH_RETURN_IF_ERROR(WriteNew(files.key, ContentOf(key_text.get()), 0600));
  const absl::Status written = WriteNew(files.certificate, ContentOf(text.get()), 0644);
  if (!written.ok()) {
    unlink(files.key.c_str());
    return written;
  }
  return files;
}

absl::StatusOr<BioPtr> OpenOfAuthority(const std::string& path, const std::string& folder) {
  errno = 0;
  BioPtr file(BIO_new_file(path.c_str(), "r"));
  if (file != nullptr) return file;
  const int error = errno;
  ERR_clear_error();
  if (error != ENOENT) return FileProblem(error, path);
  return absl::NotFoundError(absl::StrCat(folder, " contains no authority (", path,
                                          "): longhaul certs init --dir ", folder));
}

absl::StatusOr<Authority> ReadAuthority(const std::string& folder) {
  Authority authority;
  LH_ASSIGN_OR_RETURN(const BioPtr text, OpenOfAuthority(folder + "/ca.pem", folder));
  authority.certificate = NextCertificate(text.get());
  LH_ASSIGN_OR_RETURN(const BioPtr key, OpenOfAuthority(folder + "/ca.key", folder));
  authority.key.reset(PEM_read_bio_PrivateKey(key.get(), nullptr, NoPassword, nullptr));
  if (authority.certificate == nullptr || authority.key == nullptr ||
      X509_check_private_key(authority.certificate.get(), authority.key.get()) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(absl::StrCat(
        folder,
        ": ca.pem and ca.key are not a certificate and its key in PEM, without a password"));
  }
  return authority;
}

absl::Time EndOf(X509* certificate) {
  std::tm until = {};
  ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &until);
  return absl::FromTM(until, absl::UTCTimeZone());
}

absl::Status CheckEnd(const Authority& authority, absl::Time end) {
  const absl::Time last = EndOf(authority.certificate.get());
  if (end <= last) return absl::OkStatus();
  const int64_t days = (last - absl::Now()) / absl::Hours(24);
  return absl::FailedPreconditionError(absl::StrCat(
      "the authority itself expires on ", absl::FormatTime("%Y-%m-%d", last, absl::UTCTimeZone()),
      days > 0 ? absl::StrCat(": use --days of at most ", days)
               : ": make a new one in another folder (longhaul certs init)"));
}

// The list, empty if there is none.
absl::StatusOr<RevocationsPtr> ReadList(const std::string& path) {
  absl::StatusOr<std::string> text = ReadPem(path, path);
  if (absl::IsNotFound(text.status())) return RevocationsPtr(X509_CRL_new());
  LH_RETURN_IF_ERROR(text.status());
  RevocationsPtr list(PEM_read_bio_X509_CRL(ReaderOf(*text).get(), nullptr, NoPassword, nullptr));
  if (list != nullptr) return list;
  ERR_clear_error();
  return absl::InvalidArgumentError(absl::StrCat(path, " is not a revocation list in PEM"));
}

// Signs the list, with `revoked` if it is not null, and replaces the file. It is in force until the
// authority ends.
absl::Status WriteList(const std::string& path, const Authority& authority, X509* revoked) {
  LH_ASSIGN_OR_RETURN(const RevocationsPtr list, ReadList(path));
  const OpensslPtr<ASN1_TIME, ASN1_TIME_free> now(
      ASN1_TIME_set(nullptr, absl::ToTimeT(absl::Now())));
  X509_CRL_set_version(list.get(), X509_CRL_VERSION_2);
  X509_CRL_set_issuer_name(list.get(), X509_get_subject_name(authority.certificate.get()));
  X509_CRL_set1_lastUpdate(list.get(), now.get());
  X509_CRL_set1_nextUpdate(list.get(), X509_get0_notAfter(authority.certificate.get()));
  if (revoked != nullptr) {
    X509_REVOKED* const entry = X509_REVOKED_new();
    X509_REVOKED_set_serialNumber(entry, X509_get_serialNumber(revoked));
    X509_REVOKED_set_revocationDate(entry, now.get());
    if (X509_CRL_add0_revoked(list.get(), entry) != 1) {
      X509_REVOKED_free(entry);
      return OpensslProblem("a revocation list");
    }
  }
  X509_CRL_sort(list.get());
  const BioPtr text(BIO_new(BIO_s_mem()));
  if (X509_CRL_sign(list.get(), authority.key.get(), EVP_sha256()) <= 0 ||
      PEM_write_bio_X509_CRL(text.get(), list.get()) != 1) {
    return OpensslProblem("a revocation list");
  }
  const std::unique_ptr<FileSystem> fs = MakePosixFileSystem();
  return WriteFileAtomically(*fs, path, ContentOf(text.get()));
}

bool IsAddress(const std::string& host) {
  std::array<unsigned char, 16> bytes;
  return inet_pton(AF_INET, host.c_str(), bytes.data()) == 1 ||
         inet_pton(AF_INET6, host.c_str(), bytes.data()) == 1;
}

// Also keeps what is written between the names out of them.
bool IsHost(const std::string& host) {
  if (IsAddress(host)) return true;
  // "10.0.0" is a mistyped address.
  if (host.find_first_not_of("0123456789.") == std::string::npos) return false;
  return !host.empty() && host.size() <= kHostMax && host[0] != '.' && host[0] != '-' &&
         std::all_of(host.begin(), host.end(), [](unsigned char c) {
           return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '*';
         });
}

absl::StatusOr<std::string> NamesOfHosts(const CertificateRequest& request) {
  std::vector<std::string> hosts = {request.name};
  hosts.insert(hosts.end(), request.hosts.begin(), request.hosts.end());
  if (hosts.size() > kHostsMax) return absl::InvalidArgumentError("--host: more than 100");
  std::vector<std::string> names;
  for (const std::string& host : hosts) {
    if (!IsHost(host)) {
      return absl::InvalidArgumentError(
          absl::StrCat("'", host, "' is neither a host name nor a numeric address"));
    }
    names.push_back(absl::StrCat(IsAddress(host) ? "IP:" : "DNS:", host));
  }
  return absl::StrJoin(names, ",");
}

absl::StatusOr<std::vector<Extension>> ExtensionsOf(const CertificateRequest& request) {
  std::vector<Extension> result = {{NID_basic_constraints, "critical,CA:FALSE"},
                                   {NID_key_usage, "critical,digitalSignature"}};
  switch (request.kind) {
    case CertificateKind::kPool:
      result.push_back({NID_ext_key_usage, "clientAuth,serverAuth"});
      result.push_back({NID_subject_alt_name, "DNS:" + request.name});
      break;
    case CertificateKind::kCoordinator: {
      LH_ASSIGN_OR_RETURN(std::string names, NamesOfHosts(request));
      result.push_back({NID_ext_key_usage, "serverAuth"});
      result.push_back({NID_subject_alt_name, std::move(names)});
      break;
    }
    case CertificateKind::kUser:
      result.push_back({NID_ext_key_usage, "clientAuth"});
      break;
  }
  return result;
}

struct IssuedCertificate {
  CertificateFiles files;
  CertificatePtr certificate;
};

// What the authority issued under this name.
absl::StatusOr<IssuedCertificate> ReadIssued(const std::string& folder, const std::string& name) {
  if (name.empty() || name == "ca" || name.find('/') != std::string::npos)
    return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a name of a certificate"));
  const std::string path = absl::StrCat(folder, "/", name, ".pem");
  LH_ASSIGN_OR_RETURN(const std::string text, ReadPem(path, path));
  CertificatePtr certificate = NextCertificate(ReaderOf(text).get());
  ERR_clear_error();
  if (certificate == nullptr)
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a certificate in PEM"));
  CertificateFiles files{path, absl::StrCat(folder, "/", name, ".key"), EndOf(certificate.get())};
  return IssuedCertificate{std::move(files), std::move(certificate)};
}

}  // namespace

absl::Status WriteNew(const std::string& path, const std::string& text, mode_t mode) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
  if (fd < 0 && errno == EEXIST) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, " exists and is not overwritten: move it away first"));
  }
  if (fd < 0) return FileProblem(errno, path);
  const bool written =
      write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  if (written) return absl::OkStatus();
  unlink(path.c_str());
  return FileError(error, path);
}

absl::StatusOr<CertificateFiles> InitAuthority(const std::string& folder, int days) {
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) return FileProblem(errno, folder);
  // Unlike the name of any other authority, so that nobody confuses two of them.
  const std::string name = absl::StrCat("Longhaul authority ", RandomHex().substr(0, 8));
  LH_ASSIGN_OR_RETURN(CertificateFiles files,
                      Make(folder + "/ca", name, absl::Now() + days * absl::Hours(24),
                           {{NID_basic_constraints, "critical,CA:TRUE,pathlen:0"},
                            {NID_key_usage, "critical,keyCertSign,cRLSign"}},
                           nullptr));
  LH_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  LH_RETURN_IF_ERROR(WriteList(RevocationListOf(folder), authority, nullptr));
  return files;
}

std::string RevocationListOf(const std::string& folder) { return folder + "/ca.crl"; }

absl::StatusOr<CertificateFiles> ReadCertificate(const std::string& folder,
                                                 const std::string& name) {
  LH_ASSIGN_OR_RETURN(IssuedCertificate issued, ReadIssued(folder, name));
  return std::move(issued.files);
}

absl::StatusOr<CertificateFiles> RevokeCertificate(const std::string& folder,
                                                   const std::string& name) {
  LH_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  LH_ASSIGN_OR_RETURN(IssuedCertificate issued, ReadIssued(folder, name));
  auto& [files, certificate] = issued;
  if (X509_verify(certificate.get(), X509_get0_pubkey(authority.certificate.get())) != 1) {
    ERR_clear_error();
    return absl::InvalidArgumentError(
        absl::StrCat(files.certificate, " was not issued by the authority in ", folder));
  }
  LH_RETURN_IF_ERROR(WriteList(RevocationListOf(folder), authority, certificate.get()));
  const OpensslPtr<BIGNUM, BN_free> serial(
      ASN1_INTEGER_to_BN(X509_get0_serialNumber(certificate.get()), nullptr));
  char* const digits = BN_bn2hex(serial.get());
  const std::string aside = absl::StrCat(
      folder, "/", name, ".", absl::AsciiStrToLower(std::string(digits).substr(0, 8)), ".revoked");
  OPENSSL_free(digits);
  for (const auto& [from, to] :
       {std::pair{&files.certificate, aside + ".pem"}, std::pair{&files.key, aside + ".key"}}) {
    if (rename(from->c_str(), to.c_str()) != 0 && errno != ENOENT) return FileProblem(errno, *from);
    *from = to;
  }
  return files;
}

absl::StatusOr<CertificateFiles> IssueCertificate(const std::string& folder,
                                                  const CertificateRequest& request) {
  const bool host = request.kind == CertificateKind::kCoordinator;
  if (!host && !IsName(request.name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the name '", request.name, "' is not ", kNameForm));
  }
  if (!host && !request.hosts.empty())
    return absl::InvalidArgumentError("--host is for the certificate of a coordinator");
  if (request.name == "ca") return absl::InvalidArgumentError("the name 'ca' is the authority's");
  LH_ASSIGN_OR_RETURN(const std::vector<Extension> extensions, ExtensionsOf(request));
  LH_ASSIGN_OR_RETURN(const Authority authority, ReadAuthority(folder));
  const absl::Time end = absl::Now() + request.days * absl::Hours(24);
  LH_RETURN_IF_ERROR(CheckEnd(authority, end));
  return Make(absl::StrCat(folder, "/", request.name), request.name.substr(0, kCommonNameMax), end,
              extensions, &authority);
}

}  // namespace longhaul::cli
