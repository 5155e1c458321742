// UploadService of upload.proto: folders of users' machines. The contract is in the .proto.
#pragma once

#include "coordinator/service/service_context.h"
#include "coordinator/service/upload_metrics.h"
#include "longhaul/v1/upload.grpc.pb.h"

namespace longhaul::coordinator {

// The callback service whose uploads come as serialized messages.
using RawUploadService =
    v1::UploadService::WithRawCallbackMethod_UploadFile<v1::UploadService::CallbackService>;

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is
// registered with; so does `metrics`.
class UploadService final : public RawUploadService {
 public:
  // Not inline: what makes or ends a service instantiates the handlers of all its methods, in
  // seconds.
  UploadService(const ServiceContext& service, UploadMetrics* metrics);
  ~UploadService() override;

  grpc::ServerUnaryReactor* FindFolder(grpc::CallbackServerContext* context,
                                       const v1::FindFolderRequest* request,
                                       v1::FindFolderResponse* response) override;
  grpc::ServerUnaryReactor* PrepareUpload(grpc::CallbackServerContext* context,
                                          const v1::PrepareUploadRequest* request,
                                          v1::PrepareUploadResponse* response) override;
  grpc::ServerReadReactor<grpc::ByteBuffer>* UploadFile(grpc::CallbackServerContext* context,
                                                        grpc::ByteBuffer* response) override;

 private:
  const ServiceContext service_;
  UploadMetrics* const metrics_;
};

}  // namespace longhaul::coordinator
