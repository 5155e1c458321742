// What the benchmarks of this folder push, and a SyncService that takes it.
#pragma once

#include <memory>

#include "common/blocks/coded_blocks.h"
#include "common/rpc/executor.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/stream_admission.h"
#include "longhaul/v1/sync.grpc.pb.h"

namespace longhaul::benchmark {

// A codec of four bytes an element: the wire is what is measured.
inline int64_t FourBytesEach(int32_t elements) { return 4 * int64_t{elements}; }

// A fragment of so many coded bytes (a multiple of 512), none of them compressible.
std::shared_ptr<const CodedBlocks> MakeFragment(int64_t bytes);

// Pushes it whole, with a deadline of some minutes. Ends the process if it is refused.
void Push(BulkChannels channels, const std::shared_ptr<const CodedBlocks>& fragment,
          Pacer* pacer = nullptr);

// Checks and assembles every push of at most `bytes`, as the coordinator does, and forgets it.
class PushSink
    : public v1::SyncService::WithRawCallbackMethod_PushFragment<v1::SyncService::Service> {
 public:
  explicit PushSink(int64_t bytes) : limits_{bytes / 4, bytes, FourBytesEach} {}
  grpc::ServerReadReactor<grpc::ByteBuffer>* PushFragment(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override;

 private:
  const StreamLimits limits_;
  Executor executor_{{.threads = 1}};
  StreamAdmission admission_{{}};
};

}  // namespace longhaul::benchmark
