// Small TCP segments, for a path on which large packets vanish without a word (a tunnel or VPN whose
// limit is less than that of the networks at its ends, and a firewall that drops what would tell
// them so). Small calls pass there, and bulk bytes never do.
#pragma once

#include "grpcpp/support/channel_arguments.h"

namespace longhaul {

// What every path carries: packets of at most 576 bytes.
inline constexpr int kSmallSegmentBytes = 536;

// From now on connections of channels with these arguments have TCP segments of at most
// kSmallSegmentBytes, in both directions: the limit is told to the server when it is connected to. A
// system that refuses it changes nothing.
void LimitSegments(grpc::ChannelArguments& arguments);

}  // namespace longhaul
