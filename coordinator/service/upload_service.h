// UploadService of upload.proto: folders of users' machines. The contract is in the .proto.
#pragma once

#include "coordinator/service/service_context.h"
#include "coordinator/service/upload_metrics.h"
#include "longhaul/v1/upload.grpc.pb.h"

namespace longhaul::coordinator {

// Thread-safe; handlers return at once. What `service` points to outlives the server that it is
// registered with; so does `metrics`.
class UploadService final : public v1::UploadService::CallbackService {
 public:
  UploadService(const ServiceContext& service, UploadMetrics* metrics)
      : service_(service), metrics_(metrics) {}

  grpc::ServerUnaryReactor* FindFolder(grpc::CallbackServerContext* context,
                                       const v1::FindFolderRequest* request,
                                       v1::FindFolderResponse* response) override;
  grpc::ServerUnaryReactor* PrepareUpload(grpc::CallbackServerContext* context,
                                          const v1::PrepareUploadRequest* request,
                                          v1::PrepareUploadResponse* response) override;
  grpc::ServerReadReactor<v1::UploadFileRequest>* UploadFile(
      grpc::CallbackServerContext* context, v1::UploadFileResponse* response) override;

 private:
  const ServiceContext service_;
  UploadMetrics* const metrics_;
};

}  // namespace longhaul::coordinator
