#include "coordinator/service/server_service.h"

#include "absl/strings/str_cat.h"
#include "common/rpc/status_details.h"
#include "coordinator/service/messages.h"
#include "coordinator/service/refused_call.h"
#include "coordinator/service/unary.h"

namespace longhaul::coordinator {

grpc::ServerUnaryReactor* ServerService::Describe(grpc::CallbackServerContext* context,
                                                  const v1::DescribeRequest*,
                                                  v1::DescribeResponse* response) {
  LH_RETURN_IF_REFUSED(facts_.door, context);
  response->set_version(LONGHAUL_VERSION);
  *response->mutable_now() = ToProto(facts_.clock->Wall());
  *response->mutable_started_at() = ToProto(facts_.started);
  response->set_not_ready(std::string(facts_.ready().message()));
  response->set_disk_free_bytes(facts_.disk_free_bytes());
  response->set_http_address(facts_.http_address());
  response->set_http_tls(facts_.http_tls);
  return Answered(context, absl::OkStatus());
}

grpc::ServerUnaryReactor* ServerService::Probe(grpc::CallbackServerContext* context,
                                               const v1::ProbeRequest* request,
                                               v1::ProbeResponse* response) {
  LH_RETURN_IF_REFUSED(facts_.door, context);
  const auto refuse = [&](const char* field, int64_t found) {
    return Answered(
        context, BadRequestError(
                     {{field, absl::StrCat("found ", found, ", expected 0 to ", kProbeBytesMax)}}));
  };
  if (request->payload().size() > kProbeBytesMax)
    return refuse("payload", request->payload().size());
  if (request->answer_bytes() < 0 || request->answer_bytes() > kProbeBytesMax)
    return refuse("answer_bytes", request->answer_bytes());
  response->set_payload(std::string(request->answer_bytes(), '\0'));
  return Answered(context, absl::OkStatus());
}

}  // namespace longhaul::coordinator
