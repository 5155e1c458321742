// Records who changed what: a line with one JSON object for each call of an audited method
// (methods.h), refused or not. The lines are appended to a file of their own. If it is
// renamed or removed, the next line makes a new one.
//   {"time": RFC 3339, "who": "token:NAME" | "certificate:NAME" | "anonymous", "peer": address,
//    "method": "longhaul.v1.JobService/SubmitJob", "job": name or id, "pool": name,
//    "result": canonical code, "message": of a refusal,
//    "upload": its name, where a call is about one,
//    "left_out": how many calls failed before this one without a line, if any}
// Of calls that fail only kFailedCallsLogged a second get a line, since callers whom nobody knows
// could fill the disk.
// No line has a secret. The line of a refused call has the job and pool that its request names.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "common/logging/line_limit.h"
#include "common/logging/logging.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul::coordinator {

inline constexpr int kFailedCallsLogged = 100;

struct AuditEntry {
  std::string who, peer, method, job, pool, result, message, upload;
};

// Thread-safe. A write that fails is reported in the program's log; the call goes on.
class AuditLog {
 public:
  // Makes the file, mode 0600. UNAVAILABLE: it cannot be opened; the message names it.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, Logger log);
  ~AuditLog();

  void Write(const AuditEntry& entry) ABSL_LOCKS_EXCLUDED(mutex_);

  // Who makes a call, in words.
  using Who = std::function<std::string(const grpc::ServerContextBase&)>;
  // Watches the calls of audited methods; other calls are not touched. The log outlives the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeObserver(Who who);

 private:
  AuditLog(int fd, std::string path, bool torn, Logger log)
      : path_(std::move(path)), log_(std::move(log)), fd_(fd), torn_(torn) {}

  void FollowRotation() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string path_;
  const Logger log_;
  absl::Mutex mutex_;
  int fd_ ABSL_GUARDED_BY(mutex_);
  bool failed_ ABSL_GUARDED_BY(mutex_) = false;
  // The file ends with a part of a line: the disk became full within it.
  bool torn_ ABSL_GUARDED_BY(mutex_);
  LineLimit failed_calls_ ABSL_GUARDED_BY(mutex_){kFailedCallsLogged, absl::Seconds(1)};
};

}  // namespace longhaul::coordinator
