// Which kind of link a server wants, for a client that cannot connect: gRPC reports a client in
// plaintext at a TLS server, and the other way round, as a connection that broke.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/rpc/tls_files.h"

namespace longhaul {

// Opens a connection of its own to HOST:PORT and begins a TLS handshake, which it does not end.
// True: the server answers in TLS; false: as a gRPC server does in plaintext. Blocks, at most until
// `deadline` (and as long as the name's resolution takes).
//   UNAVAILABLE        nobody listens there, or the name is not known
//   DEADLINE_EXCEEDED  no answer
//   UNKNOWN            an answer that is neither
absl::StatusOr<bool> SpeaksTls(const std::string& address, absl::Time deadline);

// Why a client with these files (none: plaintext) is not connected to HOST:PORT, where gRPC only
// says that a handshake failed: does one of its own, and verifies as gRPC does. FAILED_PRECONDITION
// with cause and next step: one side speaks plaintext, the server's certificate is not accepted
// (authority, dates, name), or the server does not accept this side's. OK: nothing was found.
// Blocks, at most until `deadline`.
absl::Status ExplainConnection(const std::string& address, const TlsFiles& files,
                               absl::Time deadline);

}  // namespace longhaul
