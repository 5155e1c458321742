// Pushes over a long link against raw TCP over the same link; wan.py makes the link and starts both
// ends:
//   wan_benchmark serve HOST
//                 writes "ready GRPC_PORT RAW_PORT", serves until it is killed
//   wan_benchmark measure HOST GRPC_PORT RAW_PORT MBIT [--smoke]
//                 prints the rows
// Everything is warm: both ends have sent a fragment over every connection before it counts.
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "common/base/check.h"
#include "common/base/clock.h"
#include "common/base/mutex_checks.h"
#include "common/rpc/allocator.h"
#include "common/rpc/channel.h"
#include "common/rpc/channel_count.h"
#include "common/rpc/link_probe.h"
#include "common/rpc/server.h"
#include "grpcpp/client_context.h"
#include "longhaul/v1/pool.grpc.pb.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/link/push_sink.h"
#include "tests/benchmark/link/raw_streams.h"

namespace longhaul::benchmark {
namespace {

struct Sizes {
  int64_t fragment_bytes;
  int repetitions;
  int calls;  // Heartbeats of one repetition on an idle link.
};

Sizes SizesOf(bool smoke) { return smoke ? Sizes{8 << 20, 1, 5} : Sizes{256 << 20, 7, 20}; }

class Pools : public v1::PoolService::CallbackService {
 public:
  grpc::ServerUnaryReactor* Heartbeat(grpc::CallbackServerContext* context,
                                      const v1::HeartbeatRequest*,
                                      v1::HeartbeatResponse*) override {
    auto* reactor = context->DefaultReactor();
    reactor->Finish(grpc::Status::OK);
    return reactor;
  }
};

int Serve(const std::string& host) {
  Pools pools;
  PushSink sink(SizesOf(false).fragment_bytes);
  const auto server = Server::Start(
      {.address = host + ":0", .allow_plaintext_beyond_localhost = true}, {&pools, &sink});
  LH_CHECK(server.ok(), "an address of this namespace");
  const RawSink raw(host);
  std::printf("ready %d %d\n", (*server)->port(), raw.port());
  std::fflush(stdout);
  pause();
  return 0;
}

// Seconds of one small call on the control channel.
double Heartbeat(v1::PoolService::Stub& stub) {
  return Seconds([&] {
    grpc::ClientContext context;
    context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Minutes(1)));
    v1::HeartbeatResponse response;
    LH_CHECK(stub.Heartbeat(&context, {}, &response).ok(), "the server answers");
  });
}

std::string FirstLine(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

// One end of the link, with everything connected.
class Link {
 public:
  Link(const std::string& host, int grpc_port, int raw_port, double mbit, Sizes sizes)
      : address_(absl::StrCat(host, ":", grpc_port)),
        mbit_(mbit),
        pacer_(PacedBytesPerSecond({.megabits_per_second = mbit})),
        sizes_(sizes),
        fragment_(MakeFragment(sizes.fragment_bytes)),
        control_(MakeChannel({.address = address_})),
        pools_(v1::PoolService::NewStub(control_)) {
    const auto round_trip = MeasureRoundTrip(control_, SteadyTime() + absl::Seconds(10));
    const auto buffer = SendBufferBytesMax();
    LH_CHECK(round_trip.ok() && buffer.ok(), "the server answers, /proc is there");
    const int channels = BulkChannelCount(
        {.megabits_per_second = mbit, .round_trip = *round_trip, .send_buffer_bytes = *buffer});
    for (int i = 0; i < channels; ++i) {
      bulk_.push_back(MakeChannel({.address = address_, .kind = ChannelKind::kBulk}));
      LH_CHECK(bulk_.back()->WaitForConnected(absl::ToChronoTime(absl::Now() + absl::Minutes(1))),
               "the server listens");
    }
    raw_ = std::make_unique<RawStreams>(host, raw_port, channels);
    note_ = absl::StrFormat(
        "%g Mbit/s, round trip %.1f ms, %d channels and as many raw connections, warm; pushes "
        "paced "
        "at 96 %% of the line, as by a worker that is told of it; tcp_slow_start_after_idle=0 for "
        "both; tcp_wmem maximum %d KiB, congestion control %s",
        mbit, absl::ToDoubleMilliseconds(*round_trip), channels, *buffer >> 10,
        FirstLine("/proc/sys/net/ipv4/tcp_congestion_control"));
  }

  void MeasurePush() {
    const auto push = [this] { Push(bulk_, fragment_, &pacer_); };
    const auto raw = [this] { raw_->Send(fragment_->payload.span()); };
    push();  // Opens the connections and their windows.
    raw();
    const Pair seconds = Alternate(sizes_.repetitions, push, raw);
    const double megabits = 8e-6 * static_cast<double>(sizes_.fragment_bytes);
    const double ours = megabits / seconds.ours, reference = megabits / seconds.reference;
    Print({.name = "wan_push_channels",
           .ours = ours,
           .reference = reference,
           .ratio = ours / reference,
           .target = 0.95,
           .unit = "Mbit/s",
           .note = absl::StrFormat("against raw TCP; %d MiB, medians of %d; %s",
                                   sizes_.fragment_bytes >> 20, sizes_.repetitions, note_)});
    Print({.name = "wan_push_line",
           .ours = ours,
           .reference = mbit_,
           .ratio = ours / mbit_,
           .target = 0.85,
           .unit = "Mbit/s",
           .note = absl::StrCat("payload against the line rate; ", note_)});
  }

  void MeasureHeartbeat() {
    std::vector<double> idle, loaded;
    Heartbeat(*pools_);
    for (int i = 0; i < sizes_.repetitions; ++i) {
      for (int call = 0; call < sizes_.calls; ++call) idle.push_back(Heartbeat(*pools_));
      std::atomic<bool> pushing = true;
      std::jthread push([&] {
        Push(bulk_, fragment_, &pacer_);
        pushing = false;
      });
      while (pushing) loaded.push_back(Heartbeat(*pools_));
    }
    const double ours = 1e3 * Median(loaded), reference = 1e3 * Median(idle);
    Print({.name = "wan_heartbeat",
           .ours = ours,
           .reference = reference,
           .ratio = reference / ours,
           .target = 0.91,
           .unit = "ms",
           .note =
               absl::StrFormat("p50 of a small call on the control channel under a push (%d calls) "
                               "against an idle link; at most 1.1 times is a ratio of 0.91; %s",
                               loaded.size(), note_)});
  }

 private:
  const std::string address_;
  const double mbit_;
  Pacer pacer_;
  const Sizes sizes_;
  const std::shared_ptr<const CodedBlocks> fragment_;
  const std::shared_ptr<grpc::Channel> control_;
  const std::unique_ptr<v1::PoolService::Stub> pools_;
  std::vector<std::shared_ptr<grpc::Channel>> bulk_;
  std::unique_ptr<RawStreams> raw_;
  std::string note_;
};

int Main(int argc, char** argv) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  SkipLockCycleSearch();
  TuneAllocatorForBulk();
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (words.size() == 2 && words[0] == "serve") return Serve(words[1]);
  const bool smoke = !words.empty() && words.back() == "--smoke";
  if (words.size() != (smoke ? 6u : 5u) || words[0] != "measure") {
    std::fprintf(stderr, "wan_benchmark serve HOST | measure HOST GRPC RAW MBIT [--smoke]\n");
    return 4;
  }
  Link link(words[1], std::atoi(words[2].c_str()), std::atoi(words[3].c_str()),
            std::atof(words[4].c_str()), SizesOf(smoke));
  link.MeasurePush();
  link.MeasureHeartbeat();
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
