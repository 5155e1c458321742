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
  std::string context;      // Its name. Empty: none.
  std::string server;       // host:port
  std::string server_from;  // "--server", "LONGHAUL_SERVER", the file's path, "the default".
  TlsFiles tls;
  std::string token_file;
};

// Each value: its flag; else its variable (LONGHAUL_SERVER, LONGHAUL_TOKEN_FILE, ...), unless --context
// names a context; else what the context says; without a context what the file says at its top; else
// localhost:7070 in plaintext. The context: --context, else LONGHAUL_CONTEXT, else the file's
// `context`. The file is longhaul/config.yaml under XDG_CONFIG_HOME or ~/.config; one that is not
// there is none. INVALID_ARGUMENT, naming the source: not host:port, a file that is not YAML or has
// other keys, a context that is not in it.
absl::StatusOr<Connection> ConnectionOf(const Arguments& arguments, const Environment& environment);

// How this user is known. The files are read once here: what is wrong with them is the user's to
// mend. INVALID_ARGUMENT; UNAUTHENTICATED: a certificate is out of date.
absl::StatusOr<ClientAccess> AccessOf(const Connection& connection);

// The contexts of the file, by name; INVALID_ARGUMENT as above.
struct Context {
  std::string name;
  Connection connection;
  bool current = false;  // Taken when no other is named.
};
absl::StatusOr<std::vector<Context>> ContextsOf(const Arguments& arguments,
                                                const Environment& environment);

// Where the file is; empty: neither XDG_CONFIG_HOME nor HOME is set.
std::string ConfigPath(const Environment& environment);

}  // namespace longhaul::cli
