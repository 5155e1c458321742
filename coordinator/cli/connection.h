// How the coordinator is reached: from flags, the environment, and the contexts of a file.
//
//   # ~/.config/longhaul/config.yaml
//   context: lab                       # What is taken when none is named.
//   contexts:
//     lab:
//       server: lab.example.org:7070
//       tls: {ca: ca.pem, certificate: me.pem, key: me-key.pem}   # Relative to this file's folder.
//     here: {server: localhost:7070}
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "coordinator/cli/arguments.h"
#include "coordinator/cli/client.h"
#include "coordinator/cli/environment.h"

namespace longhaul::cli {

struct Connection {
  // Name of the context. Empty: none.
  std::string context;
  // host:port
  std::string server;
  // "--server", "LONGHAUL_SERVER", the file's path, "the default".
  std::string server_from;
  TlsFiles tls;
  std::string token_file;
};

// Where each value comes from, the first that has it: the flag; the variable (LONGHAUL_SERVER,
// LONGHAUL_TOKEN_FILE, ...), unless --context is given; the context, or without a context the top
// level of the file; localhost:7070 in plaintext. The context is that of --context, else of
// LONGHAUL_CONTEXT, else of `context` in the file. The file is longhaul/config.yaml under
// XDG_CONFIG_HOME or ~/.config. It may be missing. INVALID_ARGUMENT: an address is not host:port,
// the file is not YAML or has unknown keys, or it has no such context. The message names the
// source.
absl::StatusOr<Connection> ConnectionOf(const Arguments& arguments, const Environment& environment);

// How the coordinator identifies this user. Reads the files, so that their faults are found before
// a call. INVALID_ARGUMENT: a file is wrong. UNAUTHENTICATED: a certificate is out of date.
absl::StatusOr<ClientAccess> AccessOf(const Connection& connection);

// The contexts of the file, by name; INVALID_ARGUMENT as above.
struct Context {
  std::string name;
  Connection connection;
  // Taken when no other is named.
  bool current = false;
};
absl::StatusOr<std::vector<Context>> ContextsOf(const Arguments& arguments,
                                                const Environment& environment);

// Where the file is; empty: neither XDG_CONFIG_HOME nor HOME is set.
std::string ConfigPath(const Environment& environment);

}  // namespace longhaul::cli
