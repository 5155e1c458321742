#include "common/rpc/protobuf_log.h"

#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"
#include "common/logging/line_limit.h"
#include "google/protobuf/stubs/logging.h"

namespace longhaul {
namespace {

class ProtobufLog {
 public:
  void SendTo(const Logger& log) {
    absl::MutexLock lock(&mutex_);
    log_ = log;
    limit_ = LineLimit(1, kProtobufLogInterval);
  }

  void Take(google::protobuf::LogLevel level, const std::string& message) {
    if (level < google::protobuf::LOGLEVEL_WARNING) return;
    absl::MutexLock lock(&mutex_);
    const std::optional<int64_t> dropped = limit_.Take(SteadyTime());
    if (!dropped.has_value() && level != google::protobuf::LOGLEVEL_FATAL) return;
    std::string line = absl::StrCat("protobuf: ", message);
    if (dropped.value_or(0) > 0) absl::StrAppend(&line, " (and ", *dropped, " like it)");
    log_->Warning(line);
  }

 private:
  absl::Mutex mutex_;
  std::optional<Logger> log_ ABSL_GUARDED_BY(mutex_);
  LineLimit limit_ ABSL_GUARDED_BY(mutex_){1, kProtobufLogInterval};
};

// protobuf's handler has no argument for our own data. The object is never destroyed, since gRPC's
// threads may parse until the process ends.
ProtobufLog& TheProtobufLog() {
  static ProtobufLog& log = *new ProtobufLog;
  return log;
}

}  // namespace

void SendProtobufLogTo(const Logger& log) {
  TheProtobufLog().SendTo(log);
  google::protobuf::SetLogHandler(
      [](google::protobuf::LogLevel level, const char*, int, const std::string& message) {
        TheProtobufLog().Take(level, message);
      });
}

}  // namespace longhaul
