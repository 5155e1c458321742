#include "worker/agent/machine_figures.h"

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/bytes_text.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/io/posix_filesystem.h"
#include "common/plan/job/measured_rates.h"
#include "common/wire/message_json.h"
#include "google/protobuf/util/json_util.h"
#include "nlohmann/json.hpp"
#include "worker/agent/rank_process.h"
#include "worker/cores/processor_list.h"
#include "worker/measure/host_figures.h"

namespace longhaul {
namespace {

constexpr char kFile[] = "/machine_figures.json";
constexpr int64_t kFileBytesMax = 64 << 10;
constexpr size_t kWordsMax = 500;
// The rank's program is killed after the limit; it stops measuring before.
constexpr absl::Duration kToWrite = absl::Seconds(1);
constexpr absl::Duration kMeasureKillPatience = absl::Seconds(1),
                         kTurnEach = absl::Milliseconds(50);

RankCores CoresOfFirst(const AgentOptions& options) {
  return options.cores.empty() ? RankCores() : options.cores.front();
}

// Of the file of this path, which may be anybody's.
absl::StatusOr<v1::HostFigures> ReadFigures(const std::string& path) {
  LH_ASSIGN_OR_RETURN(const std::string json,
                      ReadFile(*MakePosixFileSystem(), path, kFileBytesMax));
  v1::HostFigures figures;
  google::protobuf::util::JsonParseOptions lenient;
  // A later version may have written more.
  lenient.ignore_unknown_fields = true;
  const auto parsed = google::protobuf::util::JsonStringToMessage(json, &figures, lenient);
  if (!parsed.ok())
    return absl::FailedPreconditionError(absl::StrCat(path, " is not a file of figures"));
  const std::vector<SpecViolation> faults = plan::FaultsOf(figures, "figures");
  if (faults.empty()) return figures;
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": ", faults.front().field, ": ", Describe(faults.front())));
}

// What became of the program.
struct Ended {
  absl::Mutex mutex;
  std::optional<int> code ABSL_GUARDED_BY(mutex);
  std::string words ABSL_GUARDED_BY(mutex);
};

absl::StatusOr<v1::HostFigures> MeasureTo(const std::string& path, const AgentOptions& options,
                                          absl::Duration limit) {
  const MeasuringTurn turn;
  const RankCores cores = CoresOfFirst(options);
  const absl::Time start = SteadyTime();
  const absl::Duration until = start - absl::UnixEpoch() + limit - kToWrite;
  RankProcess::Options process{
      .program = options.rank_program,
      .arguments = {"--measure", path, "--threads", absl::StrCat(cores.threads), "--node-ranks",
                    absl::StrCat(options.ranks), "--measure-until",
                    absl::StrFormat("%.3f", absl::ToDoubleSeconds(until)), "--log-format", "text"},
      .environment = {"OMP_WAIT_POLICY=passive", absl::StrCat("OMP_NUM_THREADS=", cores.threads)},
      .log = options.log};
  if (!cores.processors.empty())
    process.arguments.insert(process.arguments.end(), {"--cpus", ProcessorList(cores.processors)});
  const auto ended = std::make_shared<Ended>();
  RankProcess::Handler handler{.on_report = [](const RankReport&) {},
                               .on_exit =
                                   [ended](int code) {
                                     absl::MutexLock lock(&ended->mutex);
                                     ended->code = code;
                                   },
                               .on_log =
                                   [ended](absl::string_view line) {
                                     absl::MutexLock lock(&ended->mutex);
                                     ended->words = std::string(line.substr(0, kWordsMax));
                                   }};
  LH_ASSIGN_OR_RETURN(std::unique_ptr<RankProcess> rank,
                      RankProcess::Start(process, std::move(handler)));
  std::optional<int> code;
  {
    absl::MutexLock lock(&ended->mutex);
    const auto over = [&ended]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(ended->mutex) {
      return ended->code.has_value();
    };
    ended->mutex.AwaitWithTimeout(absl::Condition(&over), limit);
    code = ended->code;
  }
  if (!code.has_value()) {
    (void)rank->Kill(kMeasureKillPatience);
    return absl::DeadlineExceededError(
        absl::StrCat("measuring this machine did not end within ", absl::FormatDuration(limit)));
  }
  if (*code == 0) return ReadFigures(path);
  // Its last words have come then.
  rank.reset();
  absl::MutexLock lock(&ended->mutex);
  return absl::FailedPreconditionError(
      absl::StrCat(options.rank_program, " --measure failed with code ", *code,
                   ended->words.empty() ? "" : ": ", ended->words));
}

void Tell(const v1::HostFigures& figures, const Logger& log) {
  log.Info(
      absl::StrFormat("this machine, by the product's own kernels on %d threads: up to %.3g "
                      "GFLOP/s, memory %.3g GB/s, measured in %.1f s",
                      figures.threads(), plan::FastestProducts(figures),
                      figures.memory_gb_per_second(), figures.seconds()));
}

}  // namespace

absl::StatusOr<v1::HostFigures> MeasureMachine(const AgentOptions& options, absl::Duration limit) {
  std::error_code error;
  std::string folder = std::filesystem::temp_directory_path(error).string();
  if (error) folder = "/tmp";
  folder += "/longhaul-measure-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr)
    return absl::ErrnoToStatus(errno, absl::StrCat("making a folder like ", folder));
  absl::StatusOr<v1::HostFigures> figures = MeasureTo(folder + kFile, options, limit);
  std::filesystem::remove_all(folder, error);
  return figures;
}

void FindMachineFigures(absl::Duration limit, AgentOptions& options) {
  const std::string path =
      (options.state_dir.empty() ? options.work_dir : options.state_dir) + kFile;
  absl::StatusOr<v1::HostFigures> kept = ReadFigures(path);
  const std::string machine = MachineOf(CoresOfFirst(options).threads, options.ranks);
  if (kept.ok() && kept->machine() == machine && kept->version() == LONGHAUL_VERSION) {
    options.figures = *std::move(kept);
    return;
  }
  if (limit <= absl::ZeroDuration()) return;
  const absl::StatusOr<v1::HostFigures> figures = MeasureTo(path, options, limit);
  if (!figures.ok()) {
    options.log.Warning(absl::StrCat("forecasts use nominal figures for this machine: ",
                                     figures.status().message()));
    return;
  }
  Tell(*figures, options.log);
  options.figures = *figures;
}

MeasuringTurn::MeasuringTurn() {
  socket_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (socket_ < 0) return;
  // A name that the system frees when its holder ends, in no folder.
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string name = absl::StrCat("longhaul-measures-", geteuid());
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const absl::Time end = SteadyTime() + kMeasureMax;
  while (bind(socket_, reinterpret_cast<sockaddr*>(&address), size) != 0 && errno == EADDRINUSE &&
         SteadyTime() < end)
    absl::SleepFor(kTurnEach);
}

MeasuringTurn::~MeasuringTurn() {
  if (socket_ >= 0) close(socket_);
}

std::string FiguresJson(const v1::HostFigures& figures) {
  const nlohmann::ordered_json envelope = {
      {"schema_version", 1}, {"status", "ok"}, {"data", MessageToJson(figures, JsonFields::kAll)}};
  return envelope.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string FiguresText(const v1::HostFigures& figures) {
  std::string text = absl::StrFormat(
      "%s, version %s\nMeasured in %.1f s on the threads of one rank.\n\n"
      "MATRIX PRODUCTS     GFLOP/S\n",
      figures.machine(), figures.version(), figures.seconds());
  for (const v1::GemmFigure& figure : figures.gemm()) {
    absl::StrAppend(&text,
                    absl::StrFormat("%5d x %-5d %s %7.4g\n", figure.dim(), figure.dim(),
                                    figure.bfloat16() ? "bf16   " : "float32", figure.gigaflops()));
  }
  absl::StrAppend(&text, "\nCODEC   ENCODED/S  DECODED/S  (10^9 parameters)\n");
  for (const v1::CodecFigure& figure : figures.codecs()) {
    absl::StrAppend(&text, absl::StrFormat("%-7s %9.3g  %9.3g\n", v1::Codec_Name(figure.codec()),
                                           figure.encoded_per_second() / 1e9,
                                           figure.decoded_per_second() / 1e9));
  }
  for (const v1::KernelFigure& figure : figures.kernels()) {
    absl::StrAppend(&text, absl::StrFormat("\n%-8s WORKING SET  10^9/S\n", figure.name()));
    for (const v1::KernelRate& rate : figure.rates()) {
      absl::StrAppend(&text, absl::StrFormat("%20s  %5.3g\n", BytesText(rate.working_set_bytes()),
                                             rate.elements_per_second() / 1e9));
    }
  }
  const auto rate = [](double gigabytes) {
    return gigabytes > 0 ? absl::StrFormat("%.3g GB/s", gigabytes) : std::string("not measured");
  };
  absl::StrAppend(&text, "\nMemory, of all ranks: ", rate(figures.memory_gb_per_second()),
                  "\nBetween two ranks:    ", rate(figures.exchange_gb_per_second()), "\n");
  return text;
}

}  // namespace longhaul
