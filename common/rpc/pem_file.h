// Opens files in PEM and reads their certificates. Never asks for a password at the terminal.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/openssl_ptr.h"

namespace longhaul {

// Messages begin with `shown`. Blocks on the file system. NOT_FOUND, PERMISSION_DENIED,
// UNAVAILABLE: the file cannot be opened.
absl::StatusOr<BioPtr> OpenPem(const std::string& path, absl::string_view shown);

// Null at the end of the file, or if what follows is damaged; OpenSSL's queue of errors has why.
CertificatePtr NextCertificate(BIO* file);

// For OpenSSL's readers: there is no password. Their own callback would wait at the terminal.
int NoPassword(char*, int, int, void*);

}  // namespace longhaul
