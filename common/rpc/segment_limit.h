// Small TCP segments, for a path on which large packets vanish without a word: a tunnel or VPN has
// a smaller limit than the networks at its ends, and a firewall drops what would tell them so.
// Small calls pass there, and bulk bytes never do.
#pragma once

#include "grpcpp/support/channel_arguments.h"

namespace longhaul {

// What every path carries: packets of at most 576 bytes.
inline constexpr int kSmallSegmentBytes = 536;

// Connections of channels with these arguments have TCP segments of at most kSmallSegmentBytes, in
// both directions, since the server is told the limit when it is connected to. A system that
// refuses it changes nothing.
void LimitSegments(grpc::ChannelArguments& arguments);

}  // namespace longhaul
