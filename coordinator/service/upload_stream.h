// Takes a file of an upload: the executor gives a message to the file, which hashes and writes it,
// while the next one is read (common/rpc/received_chunks.h). So it shares the threads with the
// other bulk streams message by message. It is admitted and watched as they are
// (common/rpc/fragment_server.h). Its data are not copied between gRPC and the file.
#pragma once

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/rpc/fragment_server.h"
#include "coordinator/store/uploads.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/upload.pb.h"

namespace longhaul::coordinator {

// Of data in one message.
inline constexpr int64_t kUploadChunkMax = 1 << 20;

struct UploadHandler {
  // The file that the first message is about. Called on the executor; may block.
  std::function<absl::StatusOr<std::unique_ptr<IncomingFile>>(const v1::UploadFileRequest&)> open;
  // What a caller is told of an error of the file, or of `open`.
  std::function<absl::Status(const absl::Status&)> explain;
  // So many bytes more were taken. Called on the executor; must not block.
  std::function<void(int64_t)> on_taken;
  // How the call ends, once, before the caller is told. Any thread; must not block.
  std::function<void(const absl::Status&)> on_end;
};

// The reactor of UploadFile.
grpc::ServerReadReactor<grpc::ByteBuffer>* ReceiveUploadFile(grpc::CallbackServerContext* context,
                                                             grpc::ByteBuffer* response,
                                                             UploadHandler handler,
                                                             const BulkResources& resources);

}  // namespace longhaul::coordinator
