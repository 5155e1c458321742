// CurveService of curves.proto over gRPC. The contract is in the .proto.
#pragma once

#include "absl/status/statusor.h"
#include "coordinator/service/service_context.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/curves.grpc.pb.h"

namespace longhaul::coordinator {

// Thread-safe. Does not use the owner thread: another one reads the files.
class CurveService final : public v1::CurveService::CallbackService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods.
  explicit CurveService(const ServiceContext& service);
  ~CurveService() override;

  grpc::ServerUnaryReactor* GetCurves(grpc::CallbackServerContext* context,
                                      const v1::GetCurvesRequest* request,
                                      v1::GetCurvesResponse* response) override;

 private:
  const ServiceContext service_;
};

// Blocks on the disk. Any thread.
absl::StatusOr<v1::GetCurvesResponse> CurvesOf(ControlPlane& control,
                                               const v1::GetCurvesRequest& request);

}  // namespace longhaul::coordinator
