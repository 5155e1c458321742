#include "common/rpc/channel.h"

#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace longhaul {

std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(options.keepalive.time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   absl::ToInt64Milliseconds(options.keepalive.timeout));
  // Bulk channels idle between two rounds; their connection must be known to be good when the next
  // one begins.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name this bounds one attempt to connect; a distant site needs several round trips.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  const int64_t limit =
      options.kind == ChannelKind::kBulk ? kBulkMessageBytesMax : kControlMessageBytesMax;
  arguments.SetMaxReceiveMessageSize(static_cast<int>(limit));
  arguments.SetMaxSendMessageSize(static_cast<int>(limit));
  return grpc::CreateCustomChannel(
      options.address, options.tls ? options.tls->channel() : grpc::InsecureChannelCredentials(),
      arguments);
}

}  // namespace longhaul
