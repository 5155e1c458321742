#include "common/rpc/link_probe.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/clock.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "grpcpp/impl/codegen/client_unary_call.h"
#include "grpcpp/impl/rpc_method.h"
#include "grpcpp/support/byte_buffer.h"

namespace longhaul {
namespace {

constexpr int kCalls = 5;
constexpr char kWmemPath[] = "/proc/sys/net/ipv4/tcp_wmem";

// A health check of the whole server. Only OK is an answer.
absl::Status Check(grpc::ChannelInterface* channel, absl::Time deadline) {
  using grpc::internal::RpcMethod;
  grpc::ClientContext context;
  context.set_deadline(GrpcDeadline(deadline));
  context.set_wait_for_ready(true);
  const grpc::Slice empty;
  const grpc::ByteBuffer request(&empty, 1);
  grpc::ByteBuffer response;
  return FromGrpcStatus(grpc::internal::BlockingUnaryCall<grpc::ByteBuffer, grpc::ByteBuffer>(
      channel, RpcMethod("/grpc.health.v1.Health/Check", RpcMethod::NORMAL_RPC), &context, request,
      &response));
}

}  // namespace

absl::StatusOr<absl::Duration> MeasureRoundTrip(const std::shared_ptr<grpc::Channel>& channel,
                                                absl::Time deadline) {
  absl::Duration smallest = absl::InfiniteDuration();
  for (int i = 0; i < kCalls; ++i) {
    const absl::Time begin = SteadyTime();
    const absl::Status status = Check(channel.get(), deadline);
    if (status.ok()) {
      smallest = std::min(smallest, SteadyTime() - begin);
    } else if (smallest == absl::InfiniteDuration()) {
      return status;
    }
  }
  return smallest;
}

absl::StatusOr<int64_t> SendBufferBytesMax() {
  std::ifstream file(kWmemPath);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", kWmemPath));
  return ParseTcpWmem(std::string{std::istreambuf_iterator<char>(file), {}});
}

absl::StatusOr<int64_t> ParseTcpWmem(absl::string_view text) {
  const std::vector<absl::string_view> figures =
      absl::StrSplit(absl::StripAsciiWhitespace(text), absl::ByAnyChar(" \t"), absl::SkipEmpty());
  int64_t most = 0;
  if (figures.size() != 3 || !absl::SimpleAtoi(figures[2], &most) || most <= 0) {
    return absl::InternalError(absl::StrCat(kWmemPath, " is not three figures: ", text));
  }
  return most;
}

}  // namespace longhaul
