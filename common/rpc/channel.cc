#include "common/rpc/channel.h"

#include <algorithm>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/host_port.h"
#include "common/rpc/deadline.h"
#include "common/rpc/proxy.h"
#include "common/rpc/retry.h"
#include "common/rpc/segment_limit.h"
#include "grpc/compression.h"
#include "grpc/grpc.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/support/channel_arguments.h"

namespace longhaul {
namespace {

// A stop request is noticed after at most this time, since a watch of the channel's state cannot be
// cancelled.
constexpr absl::Duration kWatch = absl::Milliseconds(100);

// gRPC's own name of the argument, which its headers do not have.
constexpr char kConnectHeaders[] = "grpc.http_connect_headers";

// Leaves gRPC no choice: what it reads of the environment itself differs from what curl reads.
void SetProxy(const ChannelOptions& options, grpc::ChannelArguments& arguments) {
  const ProxyChoice proxy =
      options.direct ? ProxyChoice() : ProxyOf(options.address).value_or(ProxyChoice());
  if (proxy.address.empty()) return arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetString(GRPC_ARG_HTTP_PROXY, absl::StrCat("http://", proxy.address));
  if (proxy.credentials.empty()) return;
  arguments.SetString(kConnectHeaders, absl::StrCat("Proxy-Authorization:Basic ",
                                                    absl::Base64Escape(proxy.credentials)));
}

}  // namespace

bool AwaitConnected(grpc::Channel& channel, absl::Time deadline, const std::stop_token& stop) {
  for (;;) {
    const grpc_connectivity_state state = channel.GetState(/*try_to_connect=*/true);
    if (state == GRPC_CHANNEL_READY) return true;
    const absl::Duration left = deadline - SteadyTime();
    if (stop.stop_requested() || left <= absl::ZeroDuration()) return false;
    // The watch polls the channel's sockets, which makes the connection progress.
    channel.WaitForStateChange(state, GrpcDeadline(SteadyTime() + std::min(left, kWatch)));
  }
}

std::shared_ptr<grpc::Channel> MakeChannel(const ChannelOptions& options) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 1);
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIME_MS, absl::ToInt64Milliseconds(options.keepalive.time));
  arguments.SetInt(GRPC_ARG_KEEPALIVE_TIMEOUT_MS,
                   absl::ToInt64Milliseconds(options.keepalive.timeout));
  // Bulk channels are idle between two rounds. When the next round begins, their connection must be
  // known to work.
  arguments.SetInt(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1);
  arguments.SetInt(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 100);
  // Despite its name this limits one attempt to connect. A distant site needs several round trips.
  arguments.SetInt(GRPC_ARG_MIN_RECONNECT_BACKOFF_MS, 10'000);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 2000);
  // A server may come back at another address of its name. By default the name is looked up again
  // after 30 s.
  arguments.SetInt(GRPC_ARG_DNS_MIN_TIME_BETWEEN_RESOLUTIONS_MS, 2000);
  const int64_t limit =
      options.kind == ChannelKind::kBulk ? kBulkMessageBytesMax : kControlMessageBytesMax;
  arguments.SetMaxReceiveMessageSize(
      static_cast<int>(options.receive_bytes_max > 0 ? options.receive_bytes_max : limit));
  arguments.SetMaxSendMessageSize(static_cast<int>(limit));
  SetProxy(options, arguments);
  if (options.small_segments) LimitSegments(arguments);
  if (!options.tls_name.empty()) arguments.SetSslTargetNameOverride(options.tls_name);
  std::shared_ptr<grpc::Channel> channel = grpc::CreateCustomChannel(
      options.address, options.tls ? options.tls->channel() : grpc::InsecureChannelCredentials(),
      arguments);
  if (!options.tls) return channel;
  // New connections of the channel use what its Tls finds in the files.
  grpc::Channel* const made = channel.get();
  return {made, [channel = std::move(channel), tls = options.tls](grpc::Channel*) mutable {
            channel.reset();
            tls.reset();
          }};
}

void AwaitNextAttempt(absl::Span<const std::shared_ptr<grpc::Channel>> channels,
                      absl::Duration wait, const std::stop_token& stop) {
  const absl::Time begin = SteadyTime();
  // All begin to connect at once.
  for (const std::shared_ptr<grpc::Channel>& channel : channels) channel->GetState(true);
  for (const std::shared_ptr<grpc::Channel>& channel : channels) {
    if (!AwaitConnected(*channel, begin + kReconnectPatience, stop)) break;
  }
  // Also on a path on which every connection works, and breaks in every call.
  WaitUnlessStopped(wait - (SteadyTime() - begin), stop);
}

std::string ProxyNote(absl::string_view address) {
  const ProxyChoice proxy = ProxyOf(address).value_or(ProxyChoice());
  if (proxy.address.empty()) return "";
  return absl::StrCat("; ", proxy.variable, " is set: connections go through the proxy ",
                      proxy.address, ", unless no_proxy has the host");
}

absl::Status CheckAddress(absl::string_view address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (parsed.ok() && parsed->port != 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("'", address, "' is not HOST:PORT with a port from 1 to 65535"));
}

}  // namespace longhaul
