#include "common/base/host_port.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace longhaul {

absl::StatusOr<HostPort> ParseHostPort(absl::string_view text) {
  const auto refused = [text](absl::string_view why) {
    return absl::InvalidArgumentError(absl::StrCat("\"", text, "\": ", why));
  };
  if (absl::StrContains(text, "://"))
    return refused("expected host:port, without http:// or another prefix");
  const size_t colon = text.rfind(':');
  if (colon == absl::string_view::npos) return refused("expected host:port");
  HostPort result;
  const absl::string_view port = text.substr(colon + 1);
  const bool digits = !port.empty() && port.size() <= 5 &&
                      std::all_of(port.begin(), port.end(), absl::ascii_isdigit);
  if (!digits || !absl::SimpleAtoi(port, &result.port) || result.port > 65535) {
    return refused("expected host:port with a port from 0 to 65535");
  }
  absl::string_view host = text.substr(0, colon);
  const bool brackets = absl::StartsWith(host, "[") && absl::EndsWith(host, "]");
  if (brackets) host = host.substr(1, host.size() - 2);
  if (host.empty()) return refused("expected host:port, but the host is missing");
  if (!brackets && absl::StrContains(host, ":")) {
    return refused("an IPv6 address is written as [address]:port");
  }
  const auto allowed = [brackets](char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '-' || c == '_' ||
           (brackets && (c == ':' || c == '%'));
  };
  if (!std::all_of(host.begin(), host.end(), allowed)) return refused("the host name is invalid");
  result.host = std::string(host);
  return result;
}

std::string HostPortText(absl::string_view host, int port) {
  const bool v6 = absl::StrContains(host, ":");
  return absl::StrCat(v6 ? "[" : "", host, v6 ? "]:" : ":", port);
}

bool IsLoopback(absl::string_view host) {
  // An IPv4 address has only digits and dots. "127.example.org" is a name.
  const bool v4 = absl::StartsWith(host, "127.") &&
                  host.find_first_not_of("0123456789.") == absl::string_view::npos;
  return v4 || host == "localhost" || host == "::1";
}

}  // namespace longhaul
