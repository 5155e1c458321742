// What of a link can be found out from here: the figures that channel_count.h works on.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace longhaul {

// The smallest of a few unary calls (health checks), so that connecting and other traffic do not
// count. Blocks, at most until `deadline`. Returns the channel's error if no call was answered.
absl::StatusOr<absl::Duration> MeasureRoundTrip(const std::shared_ptr<grpc::Channel>& channel,
                                                absl::Time deadline);

// The most that this machine's kernel keeps for the sender of a TCP connection, where the program
// does not set it: the last of the three figures of net.ipv4.tcp_wmem. Errors: those of the file,
// or INTERNAL if it has another form.
absl::StatusOr<int64_t> SendBufferBytesMax();

// The figure in the file's text.
absl::StatusOr<int64_t> ParseTcpWmem(absl::string_view text);

}  // namespace longhaul
