// The certificates that their authority has revoked before their end.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/rpc/openssl_ptr.h"

namespace longhaul {

// Thread-safe once it is made. A list that was to be renewed by now stays in force.
class RevocationList {
 public:
  // Reads the lists of a file (CRL of RFC 5280, in PEM). `ca`: the authorities, in PEM. Messages
  // begin with `shown`. INVALID_ARGUMENT: there is no list, one is damaged, or none of the
  // authorities has signed it.
  static absl::StatusOr<RevocationList> Parse(const std::string& text, const std::string& ca,
                                              absl::string_view shown);

  bool Contains(X509* certificate) const;

 private:
  std::vector<RevocationsPtr> lists_;
};

}  // namespace longhaul
