// Pushes under mutual TLS against a raw OpenSSL stream and against the generated stub, in one run,
// each between two processes of this machine:
//   tls_benchmark [--smoke] [MiB (1024)] [repetitions (7)]
// All read the same source and fill a buffer of that size at the other end; connections are open
// before.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/check.h"
#include "common/base/mutex_checks.h"
#include "common/blocks/aligned_buffer.h"
#include "common/rpc/allocator.h"
#include "common/rpc/channel.h"
#include "common/rpc/server.h"
#include "tests/benchmark/harness/row.h"
#include "tests/benchmark/link/process_pair.h"
#include "tests/benchmark/link/push_sink.h"
#include "tests/benchmark/link/raw_tls.h"
#include "tests/benchmark/link/stub_push.h"
#include "tests/testing/certificates.h"
#include "tests/testing/temp_dir.h"

namespace longhaul::benchmark {
namespace {

using Fragment = std::shared_ptr<const CodedBlocks>;

ProcessPair::Contender Ours(const TlsFiles& files, const Fragment& fragment) {
  const auto serve = [=](const std::function<void(int)>& on_port) {
    SkipLockCycleSearch();
    TuneAllocatorForBulk();
    PushSink sink(static_cast<int64_t>(fragment->payload.size()));
    const auto server =
        Server::Start({.address = "127.0.0.1:0", .tls = *Tls::Load(files)}, {&sink});
    on_port((*server)->port());
    pause();
  };
  const auto connect = [=](int port) -> std::function<void()> {
    SkipLockCycleSearch();
    TuneAllocatorForBulk();
    const auto channel = MakeChannel({.address = absl::StrCat("127.0.0.1:", port),
                                      .kind = ChannelKind::kBulk,
                                      .tls = *Tls::Load(files)});
    return [=] { Push({&channel, 1}, fragment); };
  };
  return {serve, connect};
}

ProcessPair::Contender RawTls(const TlsFiles& files, const Fragment& fragment) {
  const auto serve = [=](const std::function<void(int)>& on_port) {
    AlignedBuffer into(fragment->payload.size());
    ServeRawTls(files, into.span(), on_port);
  };
  const auto connect = [=](int port) {
    return ConnectRawTls(files, port, fragment->payload.span());
  };
  return {serve, connect};
}

ProcessPair::Contender Stub(const TlsFiles& files, const Fragment& fragment) {
  const auto serve = [=](const std::function<void(int)>& on_port) {
    AlignedBuffer into(fragment->payload.size());
    ServeStub(files, into.span(), on_port);
  };
  const auto connect = [=](int port) { return ConnectStub(files, port, fragment->payload.span()); };
  return {serve, connect};
}

int Main(int argc, char** argv) {
  const bool smoke = argc > 1 && std::strcmp(argv[1], "--smoke") == 0;
  const int64_t bytes = int64_t{smoke ? 8 : argc > 1 ? std::atoi(argv[1]) : 1024} << 20;
  const int repetitions = smoke ? 1 : argc > 2 ? std::atoi(argv[2]) : 7;
  LH_CHECK(bytes > 0 && repetitions > 0, "positive sizes");
  const TempDir folder;
  const TestAuthority authority("an authority");
  const TlsFiles files = WriteTlsFiles(folder.path(), authority.certificate(),
                                       authority.Issue("benchmark", "DNS:localhost,IP:127.0.0.1"));
  const Fragment fragment = MakeFragment(bytes);

  ProcessPair ours(Ours(files, fragment)), raw(RawTls(files, fragment)),
      stub(Stub(files, fragment));
  std::vector<double> ours_rates, raw_rates, stub_rates;
  const double gibibytes = static_cast<double>(bytes) / (1 << 30);
  for (int i = -1; i < repetitions; ++i) {
    for (const auto& [pair, rates] : {std::pair{&ours, &ours_rates}, std::pair{&raw, &raw_rates},
                                      std::pair{&stub, &stub_rates}}) {
      const double seconds = pair->Seconds();
      if (i >= 0) rates->push_back(gibibytes / seconds);  // The first warmed connections and pages.
    }
  }
  const auto print = [&](const char* name, const std::vector<double>& reference, double target,
                         const char* what) {
    const double a = Median(ours_rates), b = Median(reference);
    Print(
        {.name = name,
         .ours = a,
         .reference = b,
         .ratio = a / b,
         .target = target,
         .unit = "GiB/s",
         .note = absl::StrFormat("push under mutual TLS 1.3 over one channel against %s; %d MiB on "
                                 "loopback, medians of %d alternating runs",
                                 what, bytes >> 20, repetitions)});
  };
  print("push_tls", raw_rates, 0.60, "a raw OpenSSL stream");
  print("push_tls_stub", stub_rates, 1.6, "the generated stub, untuned");
  return 0;
}

}  // namespace
}  // namespace longhaul::benchmark

int main(int argc, char** argv) { return longhaul::benchmark::Main(argc, argv); }
