// Client channels. Each has its own connection (own subchannel pool), so that bulk bytes never
// delay control calls and several bulk channels do use several connections. No compression;
// bandwidth probing (BDP) stays on: without it one connection makes a few MiB/s over a WAN.
#pragma once

#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/rpc/tls.h"
#include "common/rpc/transport_options.h"
#include "grpcpp/channel.h"

namespace longhaul {

enum class ChannelKind { kControl, kBulk };  // Differ in message limits.

struct ChannelOptions {
  std::string address;  // host:port
  ChannelKind kind = ChannelKind::kControl;
  std::shared_ptr<const Tls> tls;  // Null: plaintext.
  std::string tls_name;            // What the server's certificate must be for. Empty: the host.
  Keepalive keepalive;
  int64_t receive_bytes_max = 0;  // 0: that of the kind.
};

// Does not block and cannot fail: the channel connects on its first call (an attempt takes at most
// 10 s), and again with 100 ms to 2 s between attempts.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

// Waits until the channel is connected, and keeps it connecting meanwhile: true; false at the
// deadline or after a stop request. While no call is under way nobody polls a channel's sockets but
// gRPC's own backup, every 5 s; a caller that sleeps between calls which fail at once would be
// connected that late.
bool AwaitConnected(grpc::Channel& channel, absl::Time deadline, const std::stop_token& stop);

// The wait between two attempts of a call over these channels: `wait`, or, if one of them is not
// connected, until all are, at most kReconnectPatience. Ends early after a stop request.
inline constexpr absl::Duration kReconnectPatience = absl::Seconds(5);
void AwaitNextAttempt(absl::Span<const std::shared_ptr<grpc::Channel>> channels,
                      absl::Duration wait, const std::stop_token& stop);

// INVALID_ARGUMENT unless `address` is HOST:PORT or [V6]:PORT with a port from 1 to 65535, as a
// client dials it.
absl::Status CheckAddress(absl::string_view address);

}  // namespace longhaul
