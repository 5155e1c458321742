#include "common/rpc/proxy.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/host_port.h"

namespace longhaul {
namespace {

struct NetworkAddress {
  int bits = 0;
  uint8_t bytes[16] = {};
};

std::optional<NetworkAddress> ParseNetworkAddress(const std::string& text) {
  NetworkAddress address;
  if (inet_pton(AF_INET, text.c_str(), address.bytes) == 1) {
    address.bits = 32;
  } else if (inet_pton(AF_INET6, text.c_str(), address.bytes) == 1) {
    address.bits = 128;
  } else {
    return std::nullopt;
  }
  return address;
}

// Whether the first `bits` of the addresses, of one family, are equal.
bool ShareBits(const NetworkAddress& a, const NetworkAddress& b, int bits) {
  if (std::memcmp(a.bytes, b.bytes, bits / 8) != 0) return false;
  return bits % 8 == 0 || ((a.bytes[bits / 8] ^ b.bytes[bits / 8]) >> (8 - bits % 8)) == 0;
}

bool IsInNetwork(const NetworkAddress& address, absl::string_view network) {
  const std::pair<std::string, std::string> parts =
      absl::StrSplit(network, absl::MaxSplits('/', 1));
  const std::optional<NetworkAddress> base = ParseNetworkAddress(parts.first);
  int bits = 0;
  return base.has_value() && base->bits == address.bits && absl::SimpleAtoi(parts.second, &bits) &&
         bits >= 0 && bits <= base->bits && ShareBits(address, *base, bits);
}

// Takes ":PORT" or the brackets of an IPv6 address from an entry. False: the port is another one.
bool TakePort(absl::string_view& entry, int port) {
  if (absl::ConsumePrefix(&entry, "[")) {
    const size_t end = entry.find(']');
    if (end == absl::string_view::npos) return false;
    const absl::string_view rest = entry.substr(end + 1);
    entry = entry.substr(0, end);
    return rest.empty() || rest == absl::StrCat(":", port);
  }
  // An IPv6 address has more colons, and no port then.
  const size_t colon = entry.find(':');
  if (colon == absl::string_view::npos || entry.find(':', colon + 1) != absl::string_view::npos)
    return true;
  const bool same = entry.substr(colon + 1) == absl::StrCat(port);
  entry = entry.substr(0, colon);
  return same;
}

bool IsExempt(const HostPort& to, absl::string_view entry) {
  if (entry == "*") return true;
  const std::string host(absl::StripSuffix(to.host, "."));
  const std::optional<NetworkAddress> address = ParseNetworkAddress(host);
  if (address.has_value() && absl::StrContains(entry, '/')) return IsInNetwork(*address, entry);
  if (!TakePort(entry, to.port)) return false;
  if (address.has_value()) {
    const std::optional<NetworkAddress> other = ParseNetworkAddress(std::string(entry));
    return other.has_value() && other->bits == address->bits &&
           ShareBits(*address, *other, other->bits);
  }
  absl::ConsumePrefix(&entry, "*");
  absl::ConsumePrefix(&entry, ".");
  absl::ConsumeSuffix(&entry, ".");
  return !entry.empty() && (absl::EqualsIgnoreCase(host, entry) ||
                            absl::EndsWithIgnoreCase(host, absl::StrCat(".", entry)));
}

// The first variable that is set and not empty, by name and value: each in small letters, then in
// capitals. No name: there is none. A web server makes HTTP_PROXY of a request's header.
std::pair<std::string, std::string> FirstOf(std::initializer_list<absl::string_view> names,
                                            VariableReader variable) {
  for (const absl::string_view name : names) {
    for (const std::string& spelt : {std::string(name), absl::AsciiStrToUpper(name)}) {
      if (spelt != name && name == "http_proxy") continue;
      const char* const value = variable(spelt.c_str());
      if (value != nullptr && *value != '\0') return {spelt, value};
    }
  }
  return {};
}

std::string PercentDecoded(absl::string_view text) {
  std::string result;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool coded = text[i] == '%' && i + 2 < text.size() && absl::ascii_isxdigit(text[i + 1]) &&
                       absl::ascii_isxdigit(text[i + 2]);
    if (coded) absl::StrAppend(&result, absl::HexStringToBytes(text.substr(i + 1, 2)));
    if (!coded) result.push_back(text[i]);
    i += coded ? 2 : 0;
  }
  return result;
}

absl::StatusOr<ProxyChoice> ParseProxy(const std::string& name, absl::string_view url) {
  const absl::string_view expected =
      "; it must be http://HOST:PORT or http://USER:PASSWORD@HOST:PORT, the address of a proxy "
      "for HTTP CONNECT";
  url = absl::StripAsciiWhitespace(url);
  const size_t scheme = url.find("://");
  if (scheme != absl::string_view::npos) {
    if (!absl::EqualsIgnoreCase(url.substr(0, scheme), "http")) {
      // What is before "://" may be anything, also a part of a password.
      const absl::string_view given = url.substr(0, scheme);
      const bool known = std::all_of(given.begin(), given.end(), absl::ascii_isalnum);
      return absl::InvalidArgumentError(
          absl::StrCat(name, ": a proxy with ", known ? given : "another scheme",
                       known ? "://" : "", " cannot be used", expected));
    }
    url.remove_prefix(scheme + 3);
  }
  ProxyChoice choice{.variable = name};
  url = url.substr(0, url.find_first_of("/?#", url.rfind('@') == url.npos ? 0 : url.rfind('@')));
  if (const size_t at = url.rfind('@'); at != absl::string_view::npos) {
    choice.credentials = PercentDecoded(url.substr(0, at));
    url.remove_prefix(at + 1);
  }
  const absl::StatusOr<HostPort> proxy = ParseHostPort(url);
  if (!proxy.ok() || proxy->port == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": the proxy has no valid HOST:PORT", expected));
  }
  choice.address = HostPortText(proxy->host, proxy->port);
  return choice;
}

}  // namespace

absl::StatusOr<ProxyChoice> ChooseProxy(absl::string_view address, VariableReader variable) {
  const absl::StatusOr<HostPort> to = ParseHostPort(address);
  // A proxy's localhost is another machine's.
  if (!to.ok() || IsLoopback(to->host)) return ProxyChoice();
  const auto [name, url] =
      FirstOf({"grpc_proxy", "https_proxy", "http_proxy", "all_proxy"}, variable);
  if (name.empty()) return ProxyChoice();
  const std::string exempt = FirstOf({"no_grpc_proxy", "no_proxy"}, variable).second;
  for (const absl::string_view entry :
       absl::StrSplit(exempt, absl::ByAnyChar(", \t\n"), absl::SkipEmpty())) {
    if (IsExempt(*to, entry)) return ProxyChoice();
  }
  return ParseProxy(name, url);
}

absl::StatusOr<ProxyChoice> ProxyOf(absl::string_view address) {
  return ChooseProxy(address, [](const char* name) -> const char* { return std::getenv(name); });
}

}  // namespace longhaul
