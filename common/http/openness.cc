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
  if (http.tokens && http.tls) return "";
  const std::string open =
      http.tokens
          ? absl::StrCat(
                "--http-listen ", http.listen,
                ": tokens can be read on the network, because it has no TLS. Give --http-tls")
          : absl::StrCat("--http-listen ", http.listen, ": anyone who reaches it may read ",
                         http.what, ". Give --tokens");
  if (http.insecure) return absl::StrCat("INSECURE: ", open);
  return absl::InvalidArgumentError(
      absl::StrCat(open, ", listen on localhost, or give --insecure if that network is private"));
}

}  // namespace longhaul
