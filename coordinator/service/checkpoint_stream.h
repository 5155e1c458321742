// Sends a file of a checkpoint. The executor reads one chunk while the one before is sent, so the
// stream shares the threads with the other bulk streams chunk by chunk. It is admitted and watched
// as they are (common/rpc/fragment_server.h).
#pragma once

#include <functional>
#include <memory>

#include "absl/status/statusor.h"
#include "common/io/filesystem.h"
#include "common/rpc/fragment_server.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "longhaul/v1/job.pb.h"

namespace longhaul::coordinator {

struct CheckpointFile {
  std::unique_ptr<File> file;
  int64_t bytes = 0;
  int64_t step = 0;
  // Keeps the checkpoint from being removed to make room for newer ones.
  std::shared_ptr<const void> held = nullptr;
};
// Called on the executor; may block.
using OpenCheckpointFile =
    std::function<absl::StatusOr<CheckpointFile>(const v1::DownloadCheckpointRequest&)>;

// The reactor of DownloadCheckpoint.
grpc::ServerWriteReactor<grpc::ByteBuffer>* SendCheckpointFile(grpc::CallbackServerContext* context,
                                                               const grpc::ByteBuffer* request,
                                                               OpenCheckpointFile open,
                                                               const BulkResources& resources);

}  // namespace longhaul::coordinator
