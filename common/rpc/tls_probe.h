// Finds out which kind of link a server expects, for a client that cannot connect. gRPC reports a
// broken connection if only one of the two sides uses TLS.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"

namespace longhaul {

// Both take the way of a channel: through the proxy that the environment names (proxy.h).

// Opens its own connection to HOST:PORT and begins a TLS handshake, which it does not finish. True:
// the server answers in TLS. False: it answers as a gRPC server in plaintext. Blocks, at most until
// `deadline` (of SteadyTime; and as long as resolving the name takes).
//   UNAVAILABLE        nobody listens there, or the name is not known
//   DEADLINE_EXCEEDED  no answer
//   UNKNOWN            an answer of another kind
absl::StatusOr<bool> SpeaksTls(const std::string& address, absl::Time deadline);

// Finds out why a client with these files (none: plaintext) is not connected to HOST:PORT, where
// gRPC says only that a handshake failed. Makes its own handshake, and verifies as gRPC does.
// FAILED_PRECONDITION with cause and next step: one side speaks plaintext, the server's certificate
// is not accepted (authority, dates, name), or the server does not accept this side's certificate.
// OK: nothing was found. Blocks as SpeaksTls does.
absl::Status ExplainConnection(const std::string& address, const TlsFiles& files,
                               absl::Time deadline);

}  // namespace longhaul
