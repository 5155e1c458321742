#include "common/metrics/process_metrics.h"

#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "prometheus/client_metric.h"

namespace longhaul {
namespace {

// Fields of /proc/PID/stat after the name (proc(5)). The name may contain anything. The first field
// after it is the state, which is field 3 there.
enum StatField {
  kUserTime = 11,
  kSystemTime = 12,
  kThreads = 17,
  kStartTime = 19,
  kVirtual = 20,
  kResident = 21
};

std::string FileText(const std::string& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

double BootTime() {
  for (const absl::string_view line : absl::StrSplit(FileText("/proc/stat"), '\n')) {
    double seconds = 0;
    if (absl::StartsWith(line, "btime ") && absl::SimpleAtod(line.substr(6), &seconds))
      return seconds;
  }
  return 0;
}

double OpenFiles() {
  std::error_code error;
  const std::filesystem::directory_iterator files("/proc/self/fd", error);
  // One of them belongs to the iterator itself.
  return error ? 0 : static_cast<double>(std::distance(begin(files), end(files))) - 1;
}

double OpenFilesMax() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? static_cast<double>(limit.rlim_cur) : 0;
}

class ThisProcess : public prometheus::Collectable {
 public:
  std::vector<prometheus::MetricFamily> Collect() const override {
    const ProcessFigures figures = ReadProcess(0).value_or(ProcessFigures());
    std::vector<prometheus::MetricFamily> families;
    const auto add = [&](const char* name, const char* help, double value, bool counter = false) {
      prometheus::ClientMetric metric;
      (counter ? metric.counter.value : metric.gauge.value) = value;
      families.push_back({name,
                          help,
                          counter ? prometheus::MetricType::Counter : prometheus::MetricType::Gauge,
                          {metric}});
    };
    add("process_cpu_seconds_total", "User and system time of this process.", figures.cpu_seconds,
        /*counter=*/true);
    add("process_resident_memory_bytes", "Resident memory.", figures.resident_bytes);
    add("process_virtual_memory_bytes", "Mapped memory.", figures.virtual_bytes);
    add("process_start_time_seconds", "When this process started, as Unix time.",
        figures.start_time);
    add("process_threads", "Threads.", figures.threads);
    add("process_open_fds", "Open file descriptors.", OpenFiles());
    add("process_max_fds", "Limit of open file descriptors.", OpenFilesMax());
    return families;
  }
};

}  // namespace

std::optional<ProcessFigures> ReadProcess(pid_t pid) {
  const std::string text =
      FileText(pid == 0 ? "/proc/self/stat" : absl::StrCat("/proc/", pid, "/stat"));
  const size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return std::nullopt;
  const std::vector<absl::string_view> fields =
      absl::StrSplit(absl::string_view(text).substr(name_end + 2), ' ');
  const auto field = [&](StatField index) {
    double value = 0;
    return index < fields.size() && absl::SimpleAtod(fields[index], &value) ? value : 0.0;
  };
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  return ProcessFigures{
      .cpu_seconds = (field(kUserTime) + field(kSystemTime)) / ticks,
      .start_time = BootTime() + field(kStartTime) / ticks,
      .resident_bytes = field(kResident) * static_cast<double>(sysconf(_SC_PAGESIZE)),
      .virtual_bytes = field(kVirtual),
      .threads = field(kThreads)};
}

void AddProcessMetrics(MetricRegistry& registry, const std::string& build_info,
                       const std::string& version) {
  registry.Gauge(build_info, "Always 1; the labels describe this program.")
      .With({{"version", version}, {"compiler", __VERSION__}})
      .Set(1);
  registry.Add(std::make_unique<ThisProcess>());
}

}  // namespace longhaul
