// Which HTTP proxy a connection takes, as curl and pip read the variables of the environment.
// gRPC itself reads some of them only, and passes over without a word what it cannot use.
//
// The proxy is the first one that is set, small or in capitals: grpc_proxy, https_proxy,
// http_proxy (small only, as for curl), all_proxy. No proxy is used for this machine itself, and
// for what no_grpc_proxy or no_proxy (the first one that is set, small or in capitals) has: names
// with all below them, addresses, networks (10.0.0.0/8), each also with a port, or * for all.
#pragma once

#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace longhaul {

struct ProxyChoice {
  // The variable that names it. Empty: no proxy.
  std::string variable;
  // HOST:PORT.
  std::string address;
  // USER:PASSWORD, decoded. Never for logs.
  std::string credentials;
};

// The value of a variable. Null: it is not set.
using VariableReader = absl::FunctionRef<const char*(const char* name)>;

// For a connection to `address` (HOST:PORT). Pure. INVALID_ARGUMENT: the variable has no proxy that
// can be used, for example an https:// or socks5:// URL; the message names the variable and shows
// no password.
absl::StatusOr<ProxyChoice> ChooseProxy(absl::string_view address, VariableReader variable);
// As the environment of this process has it.
absl::StatusOr<ProxyChoice> ProxyOf(absl::string_view address);

}  // namespace longhaul
