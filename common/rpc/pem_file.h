// Reads files in PEM and their certificates. Never asks for a password at the terminal.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/openssl_ptr.h"

namespace longhaul {

// All of a file. Messages begin with `shown`. Blocks on the file system.
//   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  it cannot be read
//   INVALID_ARGUMENT  it is a folder, or larger than any file of certificates
absl::StatusOr<std::string> ReadPem(const std::string& path, absl::string_view shown);

// Reads `text`, which must outlive it.
BioPtr ReaderOf(const std::string& text);

// What was written to a BIO in memory.
std::string ContentOf(BIO* memory);

// Null at the end of the text, or if what follows is damaged; OpenSSL's queue of errors has why.
CertificatePtr NextCertificate(BIO* text);

// For OpenSSL's readers: there is no password. Their own callback would wait at the terminal.
int NoPassword(char*, int, int, void*);

}  // namespace longhaul
