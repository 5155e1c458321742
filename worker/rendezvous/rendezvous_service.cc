#include "worker/rendezvous/rendezvous_service.h"

#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "common/base/status_macros.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "grpc/grpc_security_constants.h"
#include "grpcpp/support/proto_buffer_reader.h"
#include "openssl/crypto.h"
#include "worker/rendezvous/rendezvous_limits.h"

namespace longhaul {
namespace {

// Takes the same time wherever the first difference is.
bool EqualInConstantTime(absl::string_view a, absl::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

bool Parse(const grpc::ByteBuffer& buffer, v1::ExchangeRequest* request) {
  // Shares the bytes. Reading needs a buffer that is not const.
  grpc::ByteBuffer slices = buffer;
  grpc::ProtoBufferReader reader(&slices);
  return reader.status().ok() && request->ParseFromZeroCopyStream(&reader);
}

// The first DNS name of its certificate.
absl::string_view NameOfPeer(const grpc::CallbackServerContext& context) {
  const auto names = context.auth_context()->FindPropertyValues(GRPC_PEER_DNS_PROPERTY_NAME);
  return names.empty() ? "" : absl::string_view(names[0].data(), names[0].size());
}

grpc::ByteBuffer ResponseOf(std::vector<std::string> blobs) {
  v1::ExchangeResponse response;
  for (std::string& blob : blobs) *response.add_blobs() = std::move(blob);
  return SerializeToByteBuffer(response);
}

}  // namespace

// gRPC reports the end of a call (its deadline, its connection) by OnCancel, never after OnDone.
class RendezvousService::Waiter final : public grpc::ServerUnaryReactor {
 public:
  Waiter(RendezvousService* service, RendezvousRound::Caller caller, grpc::ByteBuffer* response)
      : service_(service), caller_(caller), response_(response) {}

  // Each of these is the last step: the object may be gone when it returns.
  void Answer(const grpc::ByteBuffer& response) {
    *response_ = response;
    Finish(grpc::Status::OK);
  }
  void End(const absl::Status& status) { Finish(ToGrpcStatus(status)); }

  void OnCancel() override { service_->Leave(caller_); }
  void OnDone() override { delete this; }

 private:
  RendezvousService* const service_;
  const RendezvousRound::Caller caller_;
  // gRPC owns it. Valid until Finish.
  grpc::ByteBuffer* const response_;
};

void RendezvousService::StartGeneration(uint64_t generation, int size) {
  Waiters ended;
  {
    absl::MutexLock lock(&mutex_);
    round_.emplace(generation, size);
    ended.swap(waiting_);
  }
  EndAll(ended,
         absl::AbortedError(absl::StrCat("rendezvous: generation ", generation, " has begun")));
}

void RendezvousService::Close() {
  Waiters ended;
  {
    absl::MutexLock lock(&mutex_);
    closed_ = true;
    ended.swap(waiting_);
  }
  EndAll(ended, absl::UnavailableError("rendezvous: the agent ends"));
}

int RendezvousService::waiting() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(waiting_.size());
}

grpc::ServerUnaryReactor* RendezvousService::Exchange(grpc::CallbackServerContext* context,
                                                      const grpc::ByteBuffer* request,
                                                      grpc::ByteBuffer* response) {
  absl::StatusOr<RendezvousRound::Request> checked = Check(*context, *request);
  if (!checked.ok()) {
    auto* refusal = context->DefaultReactor();
    refusal->Finish(ToGrpcStatus(checked.status()));
    return refusal;
  }
  Waiter* waiter;
  absl::Status joined;
  Waiters complete;
  std::vector<std::string> blobs;
  {
    absl::MutexLock lock(&mutex_);
    const RendezvousRound::Caller caller = next_caller_++;
    waiter = new Waiter(this, caller, response);
    joined = Join(caller, *std::move(checked));
    if (joined.ok()) {
      waiting_.emplace(caller, waiter);
      if (round_->complete()) {
        complete.swap(waiting_);
        blobs = round_->Blobs();
      }
    }
  }
  // gRPC binds the call to the returned object, so the call cannot end before.
  if (!joined.ok()) {
    waiter->End(joined);
  } else if (!complete.empty()) {
    const grpc::ByteBuffer answer = ResponseOf(std::move(blobs));
    for (const auto& [caller, member] : complete) member->Answer(answer);
  }
  return waiter;
}

absl::StatusOr<RendezvousRound::Request> RendezvousService::Check(
    const grpc::CallbackServerContext& context, const grpc::ByteBuffer& request) const {
  if (!peer_name_.empty() && NameOfPeer(context) != peer_name_) {
    return absl::UnauthenticatedError(
        absl::StrCat("rendezvous: the first DNS name of a rank's certificate is ", peer_name_));
  }
  v1::ExchangeRequest message;
  if (!Parse(request, &message)) return absl::InvalidArgumentError("rendezvous: not a request");
  if (!EqualInConstantTime(message.token(), token_)) {
    return absl::UnauthenticatedError("rendezvous: wrong token");
  }
  // The two times are compared, since the difference to an infinite deadline would overflow.
  if (context.deadline() >
      std::chrono::system_clock::now() + absl::ToChronoMilliseconds(kRendezvousWaitMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: a call needs a deadline of at most ",
                     absl::FormatDuration(kRendezvousWaitMax)));
  }
  if (message.blob().size() > static_cast<size_t>(kRendezvousBlobBytesMax)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rendezvous: a blob of ", message.blob().size(), " bytes"));
  }
  return RendezvousRound::Request{.generation = message.generation(),
                                  .size = message.size(),
                                  .rank = message.rank(),
                                  .blob = std::move(*message.mutable_blob())};
}

absl::Status RendezvousService::Join(RendezvousRound::Caller caller,
                                     RendezvousRound::Request request) {
  if (closed_) return absl::UnavailableError("rendezvous: the agent ends");
  if (!round_.has_value()) {
    return absl::NotFoundError(
        absl::StrCat("rendezvous: generation ", request.generation, " has not begun"));
  }
  return round_->Join(caller, std::move(request));
}

void RendezvousService::Leave(RendezvousRound::Caller caller) {
  Waiter* gone;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = waiting_.find(caller);
    // Another thread ends the call, or has ended it.
    if (found == waiting_.end()) return;
    gone = found->second;
    waiting_.erase(found);
    round_->Leave(caller);
  }
  gone->End(absl::CancelledError("rendezvous: the rank is gone"));
}

void RendezvousService::EndAll(const Waiters& waiters, const absl::Status& status) {
  for (const auto& [caller, waiter] : waiters) waiter->End(status);
}

}  // namespace longhaul
