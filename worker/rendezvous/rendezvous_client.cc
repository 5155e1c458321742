#include "worker/rendezvous/rendezvous_client.h"

#include <algorithm>
#include <iterator>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/deadline.h"
#include "common/rpc/status_conversion.h"
#include "grpcpp/client_context.h"
#include "longhaul/v1/rendezvous.grpc.pb.h"
#include "worker/rendezvous/rendezvous_limits.h"

namespace longhaul {
namespace {

// The wait between two calls while the generation has not begun.
constexpr absl::Duration kBetweenCalls = absl::Milliseconds(100);

absl::Status CheckRequest(const RendezvousClient::Options& options, int rank, size_t blob_bytes) {
  if (options.size <= kRanksMax && rank >= 0 && rank < options.size &&
      blob_bytes <= static_cast<size_t>(kRendezvousBlobBytesMax) && !options.token.empty() &&
      options.token.size() <= static_cast<size_t>(kRendezvousTokenBytesMax)) {
    return CheckAddress(options.address);
  }
  return absl::InvalidArgumentError(absl::StrCat("rendezvous: rank ", rank, " of ", options.size,
                                                 ", a blob of ", blob_bytes, " bytes, a token of ",
                                                 options.token.size()));
}

absl::Status CheckResponse(const v1::ExchangeResponse& response, int size) {
  if (response.blobs_size() != size) {
    return absl::DataLossError(
        absl::StrCat("rendezvous: an answer of ", response.blobs_size(), " blobs"));
  }
  for (const std::string& blob : response.blobs()) {
    if (blob.size() > static_cast<size_t>(kRendezvousBlobBytesMax)) {
      return absl::DataLossError(
          absl::StrCat("rendezvous: a blob of ", blob.size(), " bytes in the answer"));
    }
  }
  return absl::OkStatus();
}

// gRPC's own message for a deadline does not say what was waited for.
absl::Status Explain(const absl::Status& status, int size, absl::Duration timeout) {
  if (!absl::IsDeadlineExceeded(status)) return status;
  return absl::DeadlineExceededError(absl::StrCat(
      "rendezvous: not all ", size, " ranks came within ", absl::FormatDuration(timeout)));
}

}  // namespace

RendezvousClient::RendezvousClient(Options options) : options_(std::move(options)) {}

absl::StatusOr<std::vector<std::string>> RendezvousClient::Exchange(int rank, std::string blob,
                                                                    absl::Duration timeout) {
  LH_RETURN_IF_ERROR(CheckRequest(options_, rank, blob.size()));
  timeout = std::min(timeout, kRendezvousTimeoutMax);
  const absl::Time deadline = SteadyTime() + timeout;
  const auto channel = MakeChannel({.address = options_.address,
                                    .tls = options_.tls,
                                    .tls_name = options_.tls_name,
                                    .receive_bytes_max = kRendezvousResponseBytesMax,
                                    .direct = true});
  // The call itself does not wait for the connection. With its error a missing server would look
  // like a rank that did not come.
  if (!AwaitConnected(*channel, deadline, std::stop_token())) {
    return absl::UnavailableError(absl::StrCat("rendezvous: no answer from ", options_.address,
                                               " within ", absl::FormatDuration(timeout)));
  }
  v1::ExchangeRequest request;
  request.set_token(options_.token);
  request.set_generation(options_.generation);
  request.set_size(options_.size);
  request.set_rank(rank);
  request.set_blob(std::move(blob));
  const auto stub = v1::RendezvousService::NewStub(channel);
  v1::ExchangeResponse response;
  absl::Status status;
  for (;;) {
    grpc::ClientContext context;
    context.set_deadline(GrpcDeadline(deadline));
    status = FromGrpcStatus(stub->Exchange(&context, request, &response));
    if (!absl::IsNotFound(status) || SteadyTime() + kBetweenCalls >= deadline) break;
    absl::SleepFor(kBetweenCalls);
  }
  if (!status.ok()) return Explain(status, options_.size, timeout);
  LH_RETURN_IF_ERROR(CheckResponse(response, options_.size));
  return std::vector<std::string>(std::make_move_iterator(response.mutable_blobs()->begin()),
                                  std::make_move_iterator(response.mutable_blobs()->end()));
}

}  // namespace longhaul
