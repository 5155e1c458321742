#include "common/http/openness.h"

#include "absl/strings/str_cat.h"
#include "common/base/host_port.h"
#include "common/base/status_macros.h"

namespace longhaul {

absl::StatusOr<std::string> CheckHttpOpenness(const HttpOpenness& http) {
  if (http.listen.empty()) return "";
  const absl::StatusOr<HostPort> address = ParseHostPort(http.listen);
  if (!address.ok())
    return absl::InvalidArgumentError(absl::StrCat("--http-listen: ", address.status().message()));
  if (IsLoopback(address->host)) return "";
  if (http.tokens) {
    return absl::StrCat("--http-listen ", http.listen,
                        ": HTTP has no TLS, so tokens can be read on the way to it: keep it within "
                        "a network that is private");
  }
  const std::string open =
      absl::StrCat("--http-listen ", http.listen, ": everybody who reaches it may read ", http.what,
                   ". Give --tokens");
  if (http.insecure) return absl::StrCat("INSECURE: ", open);
  return absl::InvalidArgumentError(absl::StrCat(
      open, ", or listen on localhost, or say --insecure where that network is private"));
}

}  // namespace longhaul
