// Measures a link from this end, for channel_count.h.
#pragma once

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "grpcpp/channel.h"

namespace longhaul {

// The shortest of a few unary calls (health checks), so that connecting and other traffic do not
// count. Blocks, at most until `deadline` (of SteadyTime). Returns the channel's error if no call
// was answered.
absl::StatusOr<absl::Duration> MeasureRoundTrip(const std::shared_ptr<grpc::Channel>& channel,
                                                absl::Time deadline);

// The most bytes that this machine's kernel keeps for the sender of a TCP connection, if the
// program does not set it: the last of the three numbers of net.ipv4.tcp_wmem. Errors: those of the
// file, or INTERNAL if it has another form.
absl::StatusOr<int64_t> SendBufferBytesMax();

// Finds the number in the file's text.
absl::StatusOr<int64_t> ParseTcpWmem(absl::string_view text);

}  // namespace longhaul
