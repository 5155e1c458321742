// Client channels. Each has its own connection (own subchannel pool), so that bulk bytes never
// delay control calls and several bulk channels do use several connections. No compression;
// bandwidth probing (BDP) stays on: without it one connection makes a few MiB/s over a WAN.
#pragma once

#include <memory>
#include <string>

#include "common/rpc/tls.h"
#include "common/rpc/transport_options.h"
#include "grpcpp/channel.h"

namespace longhaul {

enum class ChannelKind { kControl, kBulk };  // Differ in message limits.

struct ChannelOptions {
  std::string address;  // host:port
  ChannelKind kind = ChannelKind::kControl;
  std::shared_ptr<const Tls> tls;  // Null: plaintext.
  Keepalive keepalive;
};

// Does not block and cannot fail: the channel connects on its first call (an attempt takes at most
// 10 s), and again with 100 ms to 2 s between attempts.
std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options);

}  // namespace longhaul
