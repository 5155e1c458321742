// Bulk streams against raw TCP, in one run, between two processes of this machine, plaintext:
//   fragment_stream_benchmark [--smoke] [MiB (1024)] [repetitions (7)]
//   stream_push, stream_pull   a hot 1 MiB source, framed and hashed, checked and read in place at
//                              the other end; raw TCP sends the same 1 MiB over and over. A pull
//                              copies each chunk first
//   fragment_round_trip        a fragment of a quarter of the size, coded fp32, from its buffer;
//                              pulled back, decoded into a buffer and its digest verified; raw TCP
//                              sends the coded bytes into a buffer of their size, twice
// The other process serves both. Rates are GiB/s; the note has the processor seconds of both
// processes for a GiB, which depend less on what else the machine does.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex_checks.h"
#include "common/base/status_macros.h"
#include "common/codec/codec.h"
#include "common/io/digest.h"
#include "common/rpc/allocator.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/fragment_pull.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/server.h"
#include "common/wire/proto_values.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/rpc/raw_tcp.h"

namespace longhaul {
namespace {

constexpr int64_t kHotBytes = 1 << 20;
constexpr int kHot = 0, kCold = 1;  // Fragments.

int64_t FourBytesEach(int32_t elements) { return 4 * int64_t{elements}; }
std::vector<BlockRange> BlocksOfBytes(int64_t bytes) { return {{0, bytes / 512}}; }

// fp32 values.
std::shared_ptr<CodedBlocks> MakeFragment(int64_t bytes) {
  auto blocks = std::make_shared<CodedBlocks>();
  blocks->segments = CutSegments(BlocksOfBytes(bytes), bytes / 4);
  blocks->payload = AlignedBuffer(bytes);
  auto* values = reinterpret_cast<float*>(blocks->payload.data());
  for (int64_t i = 0; i < bytes / 4; ++i) values[i] = static_cast<float>(i * 7 % 1000003);
  return blocks;
}

// `bytes` that all lie in the same kHotBytes.
CodedSource HotSource(const std::shared_ptr<const CodedBlocks>& hot, int64_t bytes) {
  CodedSource source{.segments = CutSegments(BlocksOfBytes(bytes), bytes / 4), .owner = hot};
  int64_t offset = 0;
  for (const SegmentRef& segment : source.segments) {
    source.payloads.push_back(hot->payload.span().subspan(offset, FourBytesEach(segment.elements)));
    offset = (offset + FourBytesEach(segment.elements)) % kHotBytes;
  }
  return source;
}

struct Sizes {
  int64_t hot = 0, cold = 0;  // Bytes that are moved.
  StreamLimits LimitsOf(int fragment) const {
    const int64_t bytes = fragment == kHot ? hot : cold;
    return {bytes / 4, bytes, FourBytesEach};
  }
};

class Service : public v1::SyncService::WithRawCallbackMethod_PushFragment<
                    v1::SyncService::WithRawCallbackMethod_PullFragment<v1::SyncService::Service>> {
 public:
  explicit Service(Sizes sizes)
      : sizes_(sizes), hot_(MakeFragment(kHotBytes)), cold_(MakeFragment(sizes.cold)) {
    const Digest128 digest =
        DigestOf({reinterpret_cast<const char*>(cold_->payload.data()), cold_->payload.size()});
    header_.mutable_digest()->set_high(digest.high);
    header_.mutable_digest()->set_low(digest.low);
  }

  grpc::ServerReadReactor<grpc::ByteBuffer>* PushFragment(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override {
    const PushHandler handler = {
        .on_header =
            [this](const v1::PushHeader& header) { return sizes_.LimitsOf(header.fragment()); },
        .on_chunk = [](const v1::PushHeader&, const CodedChunk&) { return absl::OkStatus(); },
        .on_complete = [](const v1::PushHeader&) { return v1::PushResponse(); }};
    return ReceivePush(context, response, handler, resources_);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* PullFragment(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override {
    const PullHandler handler = {.on_request = [this](const v1::PullRequest& asked) {
      return asked.fragment() == kHot ? AnswerOf(HotSource(hot_, sizes_.hot))
                                      : AnswerOf(SourceOf(cold_, FourBytesEach));
    }};
    return SendPull(context, request, handler, resources_);
  }

 private:
  // Chunks of 1 MiB, copied as the coordinator copies them.
  PullSource AnswerOf(CodedSource source) const {
    PullSource answer{header_};
    answer.header.set_payload_bytes(source.payload_bytes());
    answer.next = [source = std::move(source), next = size_t{0}]() mutable {
      CodedBlocks chunk{{}, AlignedBuffer(kPayloadBytesMax)};
      for (int64_t at = 0; at < kPayloadBytesMax; ++next) {
        const absl::Span<const uint8_t> payload = source.payloads[next];
        std::memcpy(chunk.payload.data() + at, payload.data(), payload.size());
        at += static_cast<int64_t>(payload.size());
        chunk.segments.push_back(source.segments[next]);
      }
      return chunk;
    };
    return answer;
  }

  const Sizes sizes_;
  const std::shared_ptr<const CodedBlocks> hot_, cold_;
  v1::PullHeader header_;
  Executor executor_{{.threads = 2}};
  StreamAdmission admission_{{}};
  const BulkResources resources_{.executor = &executor_, .admission = &admission_};
};

struct Ports {
  int grpc = 0, hot = 0, cold = 0;
};

// The other process: serves everything until it is killed.
[[noreturn]] void Serve(Sizes sizes, int report) {
  SkipLockCycleSearch();
  TuneAllocatorForBulk();
  Service service(sizes);
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  RawTcpListener hot, cold;
  std::thread drain([&] {
    AlignedBuffer destination(kHotBytes);
    while (true) hot.ReceiveOver(destination.span(), sizes.hot);
  });
  const Ports ports{server->port(), hot.port(), cold.port()};
  LH_CHECK(write(report, &ports, sizeof(ports)) == sizeof(ports), "the parent reads the ports");
  AlignedBuffer destination(sizes.cold);
  while (true) cold.ReceiveOver(destination.span(), sizes.cold);
}

double ProcessorSeconds(pid_t process) {
  clockid_t clock;
  timespec time{};
  LH_CHECK(clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &time) == 0,
           "a process");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// This side of the measured paths.
class Client {
 public:
  Client(const Ports& ports, Sizes sizes)
      : ports_(ports),
        sizes_(sizes),
        hot_(MakeFragment(kHotBytes)),
        cold_(MakeFragment(sizes.cold)),
        values_(sizes.cold / 4),
        channel_(MakeChannel({.address = absl::StrFormat("127.0.0.1:%d", ports.grpc),
                              .kind = ChannelKind::kBulk})) {}

  void RawHot() {
    Require(SendRaw(ports_.hot, hot_->payload.span(), static_cast<int>(sizes_.hot / kHotBytes)));
  }
  void RawColdTwice() {
    for (int i = 0; i < 2; ++i) Require(SendRaw(ports_.cold, cold_->payload.span(), 1));
  }
  void PushHot() { Push(kHot, HotSource(hot_, sizes_.hot)); }
  void PullHot() {
    Pull(kHot, [](int, const CodedChunk&) { return absl::OkStatus(); });
  }
  void RoundTrip() {
    Push(kCold, SourceOf(cold_, FourBytesEach));
    Digester digester;
    const v1::PullHeader header = Pull(kCold, [&](int, const CodedChunk& chunk) {
      return ForEachSegment(chunk, FourBytesEach, [&](const SegmentRef& segment, auto payload) {
        const auto out =
            absl::MakeSpan(values_).subspan(segment.first_block * kBlockElements, segment.elements);
        const SegmentView coded = {segment.elements, segment.base_exponent, payload};
        LH_RETURN_IF_ERROR(codec_->Validate(coded));
        LH_RETURN_IF_ERROR(codec_->Decode(coded, out));
        digester.Update(out);
        return absl::OkStatus();
      });
    });
    const Digest128 expected = DigestFromProto(header.digest());
    Require(digester.Value() == expected);
  }

 private:
  static void Require(bool ok) { LH_CHECK(ok, "a transfer succeeds"); }
  static BulkCall Call() { return {.deadline = SteadyTime() + absl::Minutes(1)}; }

  void Push(int fragment, const CodedSource& source) {
    v1::PushHeader header;
    header.set_fragment(fragment);
    Require(PushBlocks({&channel_, 1}, header, source, Call()).ok());
  }
  v1::PullHeader Pull(int fragment, std::function<absl::Status(int, const CodedChunk&)> take) {
    v1::PullRequest request;
    request.set_fragment(fragment);
    const int64_t bytes = sizes_.LimitsOf(fragment).payload_bytes_max;
    *request.mutable_blocks() = BlocksToProto(BlocksOfBytes(bytes));
    FragmentPull pull(request, 1, [&](const v1::PullHeader&) { return sizes_.LimitsOf(fragment); },
                      {.on_begin = [](int) {}, .on_chunk = std::move(take)});
    Require(pull.Attempt({&channel_, 1}, Call()).ok());
    return pull.part(0).header;
  }

  const Ports ports_;
  const Sizes sizes_;
  const std::shared_ptr<const CodedBlocks> hot_, cold_;
  std::vector<float> values_;
  const std::unique_ptr<Codec> codec_ = *MakeCodec({.kind = CodecKind::kFp32});
  const std::shared_ptr<grpc::Channel> channel_;
};

struct Path {
  const char* name;
  double target;
  int64_t bytes;
  std::function<void()> ours, reference;
};

void Measure(const Path& path, int repetitions, pid_t server) {
  const double gibibytes = static_cast<double>(path.bytes) / (1 << 30);
  std::vector<double> ours_processor, raw_processor;
  const auto metered = [&](const std::function<void()>& transfer, std::vector<double>& processor) {
    return [&] {
      const double before = ProcessorSeconds(getpid()) + ProcessorSeconds(server);
      transfer();
      const double after = ProcessorSeconds(getpid()) + ProcessorSeconds(server);
      processor.push_back((after - before) / gibibytes);
    };
  };
  path.ours();  // Warms connections and pages.
  path.reference();
  const benchmark::Pair seconds = benchmark::Alternate(
      repetitions, metered(path.ours, ours_processor), metered(path.reference, raw_processor));
  benchmark::Print({.name = path.name,
                    .ours = gibibytes / seconds.ours,
                    .reference = gibibytes / seconds.reference,
                    .ratio = seconds.reference / seconds.ours,
                    .target = path.target,
                    .unit = "GiB/s",
                    .note = absl::StrFormat("CPU s/GiB %.2f, raw TCP %.2f; plaintext loopback",
                                            benchmark::Median(ours_processor),
                                            benchmark::Median(raw_processor))});
}

int Main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const int64_t bytes = int64_t{smoke ? 16 : argc > 1 ? std::atoi(argv[1]) : 1024} << 20;
  const int repetitions = smoke ? 1 : argc > 2 ? std::atoi(argv[2]) : 7;
  LH_CHECK(bytes >= 4 * kHotBytes && repetitions > 0, "at least 4 MiB, once");
  const Sizes sizes{.hot = bytes, .cold = bytes / 4 / kHotBytes * kHotBytes};
  int report[2];
  LH_CHECK(pipe(report) == 0, "a pipe");
  const pid_t server = fork();  // Before gRPC has threads.
  if (server == 0) Serve(sizes, report[1]);
  Ports ports;
  LH_CHECK(read(report[0], &ports, sizeof(ports)) == sizeof(ports), "the server reports its ports");
  SkipLockCycleSearch();
  TuneAllocatorForBulk();
  Client client(ports, sizes);
  const auto raw = [&] { client.RawHot(); };
  const Path paths[] = {
      {"stream_push", 0.75, sizes.hot, [&] { client.PushHot(); }, raw},
      {"stream_pull", 0.70, sizes.hot, [&] { client.PullHot(); }, raw},
      {"fragment_round_trip", 0.60, 2 * sizes.cold, [&] { client.RoundTrip(); },
       [&] { client.RawColdTwice(); }},
  };
  for (const Path& path : paths) Measure(path, repetitions, server);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
