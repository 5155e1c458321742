#include "tests/benchmark/link/push_sink.h"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "common/base/clock.h"

namespace longhaul::benchmark {

std::shared_ptr<const CodedBlocks> MakeFragment(int64_t bytes) {
  auto blocks = std::make_shared<CodedBlocks>();
  blocks->segments = CutSegments({{0, bytes / 512}}, bytes / 4);
  blocks->payload = AlignedBuffer(bytes);
  uint64_t state = 88172645463325252u;
  for (int64_t i = 0; i + 8 <= bytes; i += 8) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    std::memcpy(blocks->payload.data() + i, &state, 8);
  }
  return blocks;
}

void Push(BulkChannels channels, const std::shared_ptr<const CodedBlocks>& fragment, Pacer* pacer) {
  const auto pushed = PushBlocks(channels, {}, SourceOf(fragment, FourBytesEach),
                                 {.deadline = SteadyTime() + absl::Minutes(10), .pacer = pacer});
  if (!pushed.ok()) {
    std::fprintf(stderr, "a push failed: %s\n", pushed.status().ToString().c_str());
    std::exit(1);
  }
}

grpc::ServerReadReactor<grpc::ByteBuffer>* PushSink::PushFragment(
    grpc::CallbackServerContext* context, grpc::ByteBuffer* response) {
  return ReceivePush(
      context, response,
      {.on_header = [this](const v1::PushHeader&) { return limits_; },
       .on_chunk = [](const v1::PushHeader&, CodedChunk) { return absl::OkStatus(); },
       .on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); }},
      {.executor = &executor_, .admission = &admission_});
}

}  // namespace longhaul::benchmark
