// The reference of the TLS benchmark: bytes over one connection of OpenSSL, without framing or
// checks. Mutual TLS 1.3, the cipher that gRPC agrees on as well, writes of 1 MiB.
#pragma once

#include <functional>

#include "absl/types/span.h"
#include "common/rpc/tls_files.h"

namespace longhaul::benchmark {

// Serves one connection on a free port of 127.0.0.1, which `on_port` gets: reads until `into` is
// full, answers with one byte, again and again. Returns when the connection ends.
void ServeRawTls(const TlsFiles& files, absl::Span<uint8_t> into,
                 const std::function<void(int port)>& on_port);

// Connects. Each call of the result sends the bytes and waits for the answer.
std::function<void()> ConnectRawTls(const TlsFiles& files, int port,
                                    absl::Span<const uint8_t> bytes);

}  // namespace longhaul::benchmark
