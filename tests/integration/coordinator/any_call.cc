#include "tests/integration/coordinator/any_call.h"

#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "google/protobuf/unknown_field_set.h"
#include "grpcpp/generic/generic_stub.h"

namespace longhaul {
namespace {

constexpr absl::Duration kDeadline = absl::Seconds(20);

grpc::ByteBuffer BufferOf(const std::string& bytes) {
  const grpc::Slice slice(bytes);
  return grpc::ByteBuffer(&slice, 1);
}

std::string FlatOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  std::string bytes;
  if (!buffer.Dump(&slices).ok()) return bytes;
  for (const grpc::Slice& slice : slices)
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  return bytes;
}

}  // namespace

absl::Status CallAny(const std::shared_ptr<grpc::Channel>& channel, const std::string& method,
                     const std::string& request, const std::string& token, std::string* response) {
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + kDeadline));
  if (!token.empty()) context.AddMetadata("authorization", "Bearer " + token);
  grpc::CompletionQueue queue;
  const auto await = [&queue] {
    void* tag = nullptr;
    bool ok = false;
    return queue.Next(&tag, &ok) && ok;
  };
  const auto call = stub.PrepareCall(&context, method, &queue);
  call->StartCall(nullptr);
  (void)await();
  call->Write(BufferOf(request), grpc::WriteOptions().set_last_message(), nullptr);
  (void)await();
  grpc::ByteBuffer answer;
  call->Read(&answer, nullptr);
  if (await() && response != nullptr) *response = FlatOf(answer);
  // Only one message is needed.
  if (response != nullptr && !response->empty()) context.TryCancel();
  grpc::Status status;
  call->Finish(&status, nullptr);
  (void)await();
  return FromGrpcStatus(status);
}

std::vector<std::string> NotRefused(const std::shared_ptr<grpc::Channel>& channel,
                                    const std::vector<std::string>& methods,
                                    const std::string& token) {
  std::vector<std::string> let_in;
  for (const std::string& method : methods) {
    const absl::Status status = CallAny(channel, method, "", token);
    if (!absl::IsUnauthenticated(status) && !absl::IsPermissionDenied(status))
      let_in.push_back(method);
  }
  return let_in;
}

absl::StatusOr<std::vector<std::string>> ListServices(const std::shared_ptr<grpc::Channel>& channel,
                                                      const std::string& token) {
  // ServerReflectionRequest.list_services = 7. The answer has list_services_response = 6, with
  // `service` = 1, each with `name` = 1. They are parsed by hand, since Debian's gRPC has no
  // headers for them.
  std::string answer;
  const absl::Status status =
      CallAny(channel, "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
              std::string("\x3a\x01*", 3), token, &answer);
  if (answer.empty()) return status;
  std::vector<std::string> names;
  google::protobuf::UnknownFieldSet response, list, service;
  if (!response.ParseFromString(answer)) return absl::DataLossError("no ServerReflectionResponse");
  for (int i = 0; i < response.field_count(); ++i) {
    if (response.field(i).number() != 6) continue;
    if (!list.ParseFromString(response.field(i).length_delimited())) break;
    for (int j = 0; j < list.field_count(); ++j) {
      service.Clear();
      if (service.ParseFromString(list.field(j).length_delimited()) && service.field_count() > 0)
        names.push_back(service.field(0).length_delimited());
    }
  }
  return names;
}

}  // namespace longhaul
