#include "common/rpc/pem_file.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "openssl/err.h"
#include "openssl/pem.h"

namespace longhaul {

absl::StatusOr<BioPtr> OpenPem(const std::string& path, absl::string_view shown) {
  errno = 0;
  BioPtr file(BIO_new_file(path.c_str(), "r"));
  if (file != nullptr) return file;
  const int error = errno;
  ERR_clear_error();
  const std::string message = absl::StrCat(shown, ": ", std::strerror(error));
  if (error == ENOENT || error == ENOTDIR) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  return absl::UnavailableError(message);
}

CertificatePtr NextCertificate(BIO* file) {
  return CertificatePtr(PEM_read_bio_X509(file, nullptr, NoPassword, nullptr));
}

int NoPassword(char*, int, int, void*) { return 0; }

}  // namespace longhaul
