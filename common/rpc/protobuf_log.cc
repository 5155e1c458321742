#include "common/rpc/protobuf_log.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "google/protobuf/stubs/logging.h"

namespace longhaul {
namespace {

class ProtobufLog {
 public:
  void SendTo(const Logger& log) {
    absl::MutexLock lock(&mutex_);
    log_ = log;
    next_ = absl::InfinitePast();
    dropped_ = 0;
  }

  void Take(google::protobuf::LogLevel level, const std::string& message) {
    if (level < google::protobuf::LOGLEVEL_WARNING) return;
    absl::MutexLock lock(&mutex_);
    const absl::Time now = absl::Now();
    if (now < next_ && level != google::protobuf::LOGLEVEL_FATAL) {
      ++dropped_;
      return;
    }
    next_ = now + kProtobufLogInterval;
    std::string line = absl::StrCat("protobuf: ", message);
    if (dropped_ > 0) absl::StrAppend(&line, " (and ", std::exchange(dropped_, 0), " like it)");
    log_->Warning(line);
  }

 private:
  absl::Mutex mutex_;
  std::optional<Logger> log_ ABSL_GUARDED_BY(mutex_);
  absl::Time next_ ABSL_GUARDED_BY(mutex_);
  int64_t dropped_ ABSL_GUARDED_BY(mutex_) = 0;
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
