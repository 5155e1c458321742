// Bulk streams against raw TCP, in one run, between two processes of this machine:
//   fragment_stream_benchmark [--smoke] [MiB (256)] [repetitions (9)]
// Prints the median rate of each path and its ratio to raw TCP, measured in alternation, and the
// processor time of both processes (which depends less on what else the machine does). The streams
// read a source, frame and hash it, and check, hash and copy it into a new buffer at the other end;
// "raw TCP, hot source" only sends one 1 MiB buffer over and over, "raw TCP" the same source as the
// streams into the same destination.
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/base/check.h"
#include "common/rpc/allocator.h"
#include "common/rpc/block_proto.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_client.h"
#include "common/rpc/fragment_server.h"
#include "common/rpc/server.h"
#include "longhaul/v1/sync.grpc.pb.h"
#include "tests/benchmark/rpc/raw_tcp.h"

namespace longhaul {
namespace {

int64_t FourBytesEach(int32_t elements) { return 4 * int64_t{elements}; }

std::shared_ptr<CodedBlocks> MakeFragment(int64_t bytes) {
  auto blocks = std::make_shared<CodedBlocks>();
  blocks->segments = CutSegments({{0, bytes / 512}}, bytes / 4);
  blocks->payload = AlignedBuffer(bytes);
  for (int64_t i = 0; i < bytes; ++i) blocks->payload.data()[i] = static_cast<uint8_t>(i * 7 >> 3);
  return blocks;
}

class Service : public v1::SyncService::WithRawCallbackMethod_PushFragment<
                    v1::SyncService::WithRawCallbackMethod_PullFragment<v1::SyncService::Service>> {
 public:
  explicit Service(int64_t bytes)
      : limits_{bytes / 4, bytes, FourBytesEach}, fragment_(MakeFragment(bytes)) {}

  grpc::ServerReadReactor<grpc::ByteBuffer>* PushFragment(grpc::CallbackServerContext* context,
                                                          grpc::ByteBuffer* response) override {
    const PushHandler handler = {
        .on_header = [this](const v1::PushHeader&) { return limits_; },
        .on_complete = [](const v1::PushHeader&, CodedBlocks) { return v1::PushResponse(); }};
    return ReceivePush(context, response, handler, resources_);
  }
  grpc::ServerWriteReactor<grpc::ByteBuffer>* PullFragment(
      grpc::CallbackServerContext* context, const grpc::ByteBuffer* request) override {
    const PullHandler handler = {.on_request = [this](const v1::PullRequest&) {
      return PullSource{{}, SourceOf(fragment_, FourBytesEach)};
    }};
    return SendPull(context, request, handler, resources_);
  }

 private:
  const StreamLimits limits_;
  const std::shared_ptr<const CodedBlocks> fragment_;
  Executor executor_{{.threads = 1}};
  StreamAdmission admission_{{}};
  const BulkResources resources_{.executor = &executor_, .admission = &admission_};
};

struct Ports {
  int grpc = 0, tcp = 0;
};

// The other process: serves both until it is killed.
[[noreturn]] void Serve(int64_t bytes, int report) {
  TuneAllocatorForBulk();
  Service service(bytes);
  const auto server = *Server::Start({.address = "127.0.0.1:0"}, {&service});
  RawTcpListener listener;
  const Ports ports{server->port(), listener.port()};
  LH_CHECK(write(report, &ports, sizeof(ports)) == sizeof(ports), "the parent reads the ports");
  AlignedBuffer destination(bytes);
  while (true) listener.ReceiveInto(destination.span());
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

struct Path {
  const char* name;
  std::function<bool()> transfer;
  std::vector<double> rates = {};      // GiB/s
  std::vector<double> processor = {};  // Seconds a GiB.
};

double ProcessorSeconds(pid_t process) {
  clockid_t clock;
  timespec time{};
  LH_CHECK(clock_getcpuclockid(process, &clock) == 0 && clock_gettime(clock, &time) == 0,
           "a process");
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

void Measure(Path& path, int64_t bytes, pid_t server) {
  const double gibibytes = static_cast<double>(bytes) / (1 << 30);
  const double processor = ProcessorSeconds(getpid()) + ProcessorSeconds(server);
  const auto begin = std::chrono::steady_clock::now();
  LH_CHECK(path.transfer(), path.name);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  path.rates.push_back(gibibytes / seconds.count());
  path.processor.push_back((ProcessorSeconds(getpid()) + ProcessorSeconds(server) - processor) /
                           gibibytes);
}

void Run(const Ports& ports, pid_t server, int64_t bytes, int repetitions) {
  const auto source = MakeFragment(bytes);
  const auto channel = MakeChannel(
      {.address = "127.0.0.1:" + std::to_string(ports.grpc), .kind = ChannelKind::kBulk});
  const auto call = [] {
    return BulkCall{.deadline =
                        absl::FromChrono(std::chrono::system_clock::now()) + absl::Minutes(1)};
  };
  const auto push = [&] {
    return PushBlocks({&channel, 1}, {}, SourceOf(source, FourBytesEach), call()).ok();
  };
  const auto pull = [&] {
    v1::PullRequest request;
    *request.mutable_blocks() = BlocksToProto(BlocksOf(source->segments));
    const StreamLimits limits{bytes / 4, bytes, FourBytesEach};
    return PullBlocks(
               {&channel, 1}, request, [&](const v1::PullHeader&) { return limits; }, call())
        .ok();
  };
  const int64_t hot = std::min<int64_t>(bytes, 1 << 20);
  Path paths[] = {
      {"raw TCP, hot source",
       [&] { return SendRaw(ports.tcp, source->payload.span().subspan(0, hot), bytes / hot); }},
      {"raw TCP", [&] { return SendRaw(ports.tcp, source->payload.span(), 1); }},
      {"push", push},
      {"pull", pull},
  };
  for (int i = -1; i < repetitions; ++i) {
    for (Path& path : paths) {
      if (i == 0)
        path.rates.clear(), path.processor.clear();  // The first warmed connections and pages.
      Measure(path, bytes, server);
    }
  }
  std::printf("%-22s %8s %10s %10s %14s\n", "path", "GiB/s", "of raw hot", "of raw",
              "CPU s per GiB");
  for (const Path& path : paths) {
    const double rate = Median(path.rates);
    std::printf("%-22s %8.2f %10.2f %10.2f %14.2f\n", path.name, rate,
                rate / Median(paths[0].rates), rate / Median(paths[1].rates),
                Median(path.processor));
  }
}

int Main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const int64_t bytes = int64_t{smoke ? 8 : argc > 1 ? std::atoi(argv[1]) : 256} << 20;
  const int repetitions = smoke ? 1 : argc > 2 ? std::atoi(argv[2]) : 9;
  LH_CHECK(bytes > 0 && repetitions > 0, "positive sizes");
  int report[2];
  LH_CHECK(pipe(report) == 0, "a pipe");
  const pid_t server = fork();  // Before gRPC has threads.
  if (server == 0) Serve(bytes, report[1]);
  Ports ports;
  LH_CHECK(read(report[0], &ports, sizeof(ports)) == sizeof(ports), "the server reports its ports");
  TuneAllocatorForBulk();
  Run(ports, server, bytes, repetitions);
  kill(server, SIGKILL);
  waitpid(server, nullptr, 0);
  return 0;
}

}  // namespace
}  // namespace longhaul

int main(int argc, char** argv) { return longhaul::Main(argc, argv); }
