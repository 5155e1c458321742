#include "common/rpc/grpc_log.h"

#include <atomic>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/logging/line_limit.h"
#include "grpc/support/log.h"

namespace longhaul {
namespace {

class GrpcLog {
 public:
  explicit GrpcLog(const Logger& log) : log_(log) {}

  void Take(const gpr_log_func_args& args) {
    std::string line = absl::StrCat("grpc: ", args.message);
    // Server::Start says the same in plain words.
    if (absl::StrContains(line, "No address added out of total")) return log_.Debug(line);
    {
      absl::MutexLock lock(&mutex_);
      RepeatLimit& of_place =
          places_.try_emplace({args.file, args.line}, kGrpcLogInterval, kGrpcRepeatsLongest)
              .first->second;
      const std::optional<int64_t> repeats = of_place.Take(SteadyTime());
      if (!repeats.has_value()) return;
      const std::optional<int64_t> dropped = limit_.Take(SteadyTime());
      if (!dropped.has_value()) return;
      if (*repeats > 0) absl::StrAppend(&line, " (and ", *repeats, " times more before)");
      if (*dropped > 0) absl::StrAppend(&line, " (and ", *dropped, " others before)");
    }
    log_.Log(args.severity == GPR_LOG_SEVERITY_ERROR ? LogLevel::kWarning : LogLevel::kDebug, line);
  }

 private:
  const Logger log_;
  absl::Mutex mutex_;
  LineLimit limit_ ABSL_GUARDED_BY(mutex_){kGrpcLogLinesMax, kGrpcLogInterval};
  // By the file and line of gRPC's source, of which there are some thousands at most.
  std::map<std::pair<absl::string_view, int>, RepeatLimit> places_ ABSL_GUARDED_BY(mutex_);
};

// gRPC's callback has no argument for our own data. The object is never destroyed, since gRPC's
// threads may log until the process ends.
std::atomic<GrpcLog*> the_grpc_log = nullptr;

}  // namespace

void SendGrpcLogTo(const Logger& log) {
  the_grpc_log = new GrpcLog(log);
  gpr_set_log_function([](gpr_log_func_args* args) { the_grpc_log.load()->Take(*args); });
}

}  // namespace longhaul
