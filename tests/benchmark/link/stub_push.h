// What one gets without work: a push through the generated stub and service, messages with 1 MiB in
// a `bytes` field, gRPC's own TLS credentials, every setting at its default.
#pragma once

#include <functional>

#include "absl/types/span.h"
#include "common/rpc/tls_files.h"

namespace longhaul::benchmark {

// Serves on a free port of 127.0.0.1, which `on_port` gets; copies what comes into `into`. Returns
// never.
void ServeStub(const TlsFiles& files, absl::Span<uint8_t> into,
               const std::function<void(int port)>& on_port);

// Each call of the result sends the bytes and waits for the answer.
std::function<void()> ConnectStub(const TlsFiles& files, int port, absl::Span<const uint8_t> bytes);

}  // namespace longhaul::benchmark
