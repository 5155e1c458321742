// 256 pushes at one time: whether all complete, and the memory that they take. The pools are
// another process, so that the coordinator's memory is its own.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <barrier>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/rpc/channel.h"
#include "common/rpc/fragment_stream.h"
#include "common/rpc/status_conversion.h"
#include "tests/benchmark/coordinator/figures.h"
#include "tests/benchmark/coordinator/pool_driver.h"
#include "tests/benchmark/coordinator/served.h"
#include "tests/benchmark/harness/row.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

constexpr int64_t kPushElements = 16 << 10;

// What the pools tell the coordinator's process.
struct Result {
  int completed = 0, refused = 0;
  double seconds = 0;
};

template <typename T>
void Send(int pipe, const T& value) {
  LH_CHECK(write(pipe, &value, sizeof(value)) == sizeof(value), "the other process is there");
}
template <typename T>
T Receive(int pipe) {
  T value;
  if (read(pipe, &value, sizeof(value)) != sizeof(value)) std::_Exit(1);
  return value;
}

struct Shape {
  int pools = 8, fragments = 32;
  int streams() const { return pools * fragments; }
};

std::string PoolName(int pool) { return absl::StrCat("pool-", pool); }

v1::JobSpec SpecOf(const Shape& shape) {
  std::vector<std::string> pools;
  for (int p = 0; p < shape.pools; ++p) pools.push_back(PoolName(p));
  return longhaul::benchmark::SpecOf("many", shape.fragments, kPushElements, 1 << 20, v1::FP32,
                                     pools);
}

// One stream: all open before any goes on.
absl::Status PushAfterAll(v1::SyncService::Stub& stub, const std::vector<v1::PushMessage>& messages,
                          std::barrier<>& all) {
  grpc::ClientContext context;
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(60)));
  v1::PushResponse response;
  const auto writer = stub.PushFragment(&context, &response);
  bool going = true;
  for (const v1::PushMessage& message : messages) {
    going = going && writer->Write(message);
    if (&message == &messages.front()) {
      all.arrive_and_wait();
      // The server has taken the headers.
      absl::SleepFor(absl::Milliseconds(300));
    }
  }
  writer->WritesDone();
  return FromGrpcStatus(writer->Finish());
}

// The pools' process.
[[noreturn]] void Pools(const Shape& shape, int from_server, int to_server) {
  const int port = Receive<int>(from_server);
  const std::string address = absl::StrCat("127.0.0.1:", port);
  const v1::JobSpec spec = SpecOf(shape);
  v1::SubmitJobRequest request;
  *request.mutable_spec() = spec;
  v1::SubmitJobResponse job;
  {
    grpc::ClientContext context;
    OrEnd(FromGrpcStatus(v1::JobService::NewStub(MakeChannel({.address = address}))
                             ->SubmitJob(&context, request, &job)),
          "submit");
  }
  std::vector<std::unique_ptr<PoolDriver>> pools;
  for (int p = 0; p < shape.pools; ++p) {
    pools.push_back(std::make_unique<PoolDriver>(address, PoolName(p)));
    pools.back()->Join();
  }
  for (auto& pool : pools) pool->Take(job.job().id(), spec);
  pools[0]->AwaitOpen();
  pools[0]->Seed();
  std::vector<std::unique_ptr<v1::SyncService::Stub>> stubs;
  std::vector<std::vector<v1::PushMessage>> pushes;
  const std::vector<float> values(kPushElements, 0.125f);
  for (int p = 0; p < shape.pools; ++p) {
    stubs.push_back(
        v1::SyncService::NewStub(MakeChannel({.address = address, .kind = ChannelKind::kBulk})));
    const HandPool& pool = pools[p]->pool();
    for (int f = 0; f < shape.fragments; ++f) {
      pushes.push_back(pool.MessagesOf(pool.Encode(f, 1, v1::OUTER, CodecKind::kFp32, values),
                                       CodecKind::kFp32));
    }
  }
  Send(to_server, 0);
  Receive<int>(from_server);
  Result result;
  std::vector<absl::Status> ends(shape.streams());
  result.seconds = Seconds([&] {
    std::barrier<> all(shape.streams());
    std::vector<std::thread> threads;
    for (int i = 0; i < shape.streams(); ++i) {
      threads.emplace_back(
          [&, i] { ends[i] = PushAfterAll(*stubs[i / shape.fragments], pushes[i], all); });
    }
    for (std::thread& thread : threads) thread.join();
  });
  for (const absl::Status& end : ends) {
    result.completed += end.ok();
    result.refused += absl::IsResourceExhausted(end);
    if (!end.ok()) fprintf(stderr, "a push: %s\n", end.ToString().c_str());
  }
  Send(to_server, result);
  std::_Exit(0);
}

// The most memory that this process has while the watch lives.
class MemoryWatch {
 public:
  MemoryWatch() : before_(ResidentBytes(true)), thread_([this] { Run(); }) {}
  // Growth since the beginning.
  int64_t Stop() {
    stopping_ = true;
    thread_.join();
    return most_ - before_;
  }

 private:
  void Run() {
    while (!stopping_) {
      most_ = std::max(most_, ResidentBytes(false));
      absl::SleepFor(absl::Milliseconds(2));
    }
  }
  const int64_t before_;
  int64_t most_ = 0;
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

void Report(const Shape& shape, const Result& result, int64_t grown) {
  const double streams = shape.streams();
  Print({.name = "pushes_completed",
         .ours = static_cast<double>(result.completed),
         .reference = streams,
         .ratio = result.completed / streams,
         .target = 1,
         .unit = "streams",
         .note = absl::StrCat(shape.pools, " pools with ", shape.fragments,
                              " streams of 64 KiB each, all open before the first chunk; ",
                              result.refused, " refused; ", result.seconds, " s")});
  // What admission counts for such a stream, and what gRPC may hold beside it: a message that is
  // read ahead, the stream's own.
  const double allowed = 1e-6 * streams * (2 * kPushElements * sizeof(float) + 2 * kRestBytesMax);
  Print({.name = "pushes_memory",
         .ours = 1e-6 * static_cast<double>(grown),
         .reference = allowed,
         .ratio = allowed / std::max(1e-6 * static_cast<double>(grown), 1e-3),
         .target = 1,
         .unit = "MB",
         .note = "most growth of the coordinator's resident memory; reference: twice what these "
                 "streams are admitted by"});
}

}  // namespace

void BenchmarkPushes(const Scale& scale) {
  Shape shape;
  if (scale.smoke) shape = {.pools = 2, .fragments = 4};
  int to_pools[2], to_server[2];
  LH_CHECK(pipe(to_pools) == 0 && pipe(to_server) == 0, "two pipes");
  // Before there are threads.
  const pid_t pools = fork();
  LH_CHECK(pools >= 0, "a process for the pools");
  if (pools == 0) {
    close(to_pools[1]);
    close(to_server[0]);
    Pools(shape, to_pools[0], to_server[1]);
  }
  close(to_pools[0]);
  close(to_server[1]);
  const TempDir dir;
  Served served(dir.path());
  served.Start();
  Send(to_pools[1], std::stoi(served.address().substr(served.address().rfind(':') + 1)));
  Receive<int>(to_server[0]);
  MemoryWatch memory;
  Send(to_pools[1], 0);
  const Result result = Receive<Result>(to_server[0]);
  const int64_t grown = memory.Stop();
  waitpid(pools, nullptr, 0);
  Report(shape, result, grown);
}

}  // namespace longhaul::benchmark
