#include "common/rpc/pem_file.h"

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "common/io/file_error.h"
#include "openssl/err.h"
#include "openssl/pem.h"

namespace longhaul {

absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view shown) {
  constexpr size_t kPemBytesMax = 16 << 20;
  errno = 0;
  const BioPtr file(BIO_new_file(path.c_str(), "r"));
  std::string text;
  int n = -1;
  if (file != nullptr) {
    char piece[4096];
    while ((n = BIO_read(file.get(), piece, sizeof(piece))) > 0 && text.size() <= kPemBytesMax)
      text.append(piece, n);
  }
  const int error = errno;
  ERR_clear_error();
  if (n < 0 && error == EISDIR)
    return absl::InvalidArgumentError(absl::StrCat(shown, " is not a file"));
  if (n < 0) return FileError(error, shown);
  if (text.size() <= kPemBytesMax) return text;
  return absl::InvalidArgumentError(absl::StrCat(shown, " has more than ", kPemBytesMax, " bytes"));
}

BioPtr ReaderOf(const std::string& text) {
  return BioPtr(BIO_new_mem_buf(text.data(), static_cast<int>(text.size())));
}

std::string ContentOf(BIO* memory) {
  char* data = nullptr;
  const int64_t size = BIO_get_mem_data(memory, &data);
  return std::string(data, std::max<int64_t>(size, 0));
}

CertificatePtr NextCertificate(BIO* text) {
  return CertificatePtr(PEM_read_bio_X509(text, nullptr, NoPassword, nullptr));
}

int NoPassword(char*, int, int, void*) { return 0; }

}  // namespace longhaul
