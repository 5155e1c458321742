// Client channels. Each has its own connection (its own subchannel pool). So bulk bytes never delay
// control calls, and several bulk channels really use several connections. No compression.
// Bandwidth probing (BDP) stays on: without it one connection reaches only a few MiB/s over a WAN.
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

// The kinds have different message limits.
enum class ChannelKind { kControl, kBulk };

struct ChannelOptions {
  // HOST:PORT.
  std::string address;
  ChannelKind kind = ChannelKind::kControl;
  // Null: plaintext.
  std::shared_ptr<const Tls> tls;
  // The name that the server's certificate must have. Empty: the host.
  std::string tls_name;
  Keepalive keepalive;
  // 0: the limit of the kind.
  int64_t receive_bytes_max = 0;
  // Never through a proxy.
  bool direct = false;
  // See segment_limit.h. For calls whose bytes are few: they pass every path.
  bool small_segments = false;
};

// Connects through the proxy that the environment names (ProxyOf). The caller has refused one that
// cannot be used; it would be passed over here.
//
// Does not block and cannot fail. The channel connects on its first call (an attempt takes at most
// 10 s), and tries again after 100 ms to 2 s; after 2 s it also looks the host's name up again.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

// Waits until the channel is connected, and makes it connect meanwhile. Returns false at the
// deadline (of SteadyTime) or after a stop request. The wait is needed: while no call is in
// progress only gRPC's backup polls a channel's sockets, every 5 s. So a caller that sleeps between
// calls that fail at once would be connected that late.
bool AwaitConnected(grpc::Channel& channel, absl::Time deadline, const std::stop_token& stop);

// The wait between two attempts of a call over these channels: `wait`, and, if one of them is not
// connected, until all are, but at most kReconnectPatience. Ends early after a stop request.
inline constexpr absl::Duration kReconnectPatience = absl::Seconds(5);
void AwaitNextAttempt(absl::Span<const std::shared_ptr<grpc::Channel>> channels,
                      absl::Duration wait, const std::stop_token& stop);

// "; https_proxy is set: ..." where a channel to `address` goes through a proxy, else empty.
std::string ProxyNote(absl::string_view address);

// INVALID_ARGUMENT unless a client can dial `address`: HOST:PORT or [V6]:PORT with a port from 1 to
// 65535.
absl::Status CheckAddress(absl::string_view address);

}  // namespace longhaul
