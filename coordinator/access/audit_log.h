// Records who changed what: a line with one JSON object for each call of an audited method
// (methods.h), refused or not. The lines are appended to a file of their own. A file that was
// renamed or removed, as rotation does, is made again; copytruncate works as well.
//   {"time": RFC 3339, "who": "token:NAME" | "certificate:NAME" | "anonymous", "peer": address,
//    "method": "longhaul.v1.JobService/SubmitJob", "job": name or id, "pool": name,
//    "result": canonical code, "message": of a refusal,
//    "upload": its name, where a call is about one,
//    "call": a number of this start of the program,
//    "left_out": how many calls before this one got no line, if any}
// Of calls that fail only kFailedCallsLogged a second get a line, since callers whom nobody knows
// could fill the disk; and of a pool's calls only kPoolCallsLogged a minute, since an agent may
// join as often as it likes.
//
// A user's call that the rules admit also has a line before its handler runs, with the same "call"
// and the result "BEGUN" (at most kBegunCallsLogged a second): if the program is killed in the
// middle of it, the call is known. A call waits for its line, but at most kAuditPatience, so that a
// disk that hangs holds up nobody. Lines that are not written are counted; the next line that is
// has their number: {"time": ..., "dropped": lines}.
// No line has a secret. The line of a refused call has the job and pool that its request names.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/line_limit.h"
#include "common/logging/line_queue.h"
#include "common/logging/logging.h"
#include "coordinator/access/call_rate.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/server_interceptor.h"

namespace longhaul::coordinator {

inline constexpr int kFailedCallsLogged = 100, kBegunCallsLogged = 100;
// Enough for all nodes of a pool to come and go at once.
inline constexpr int kPoolCallsLogged = 600;
inline constexpr absl::Duration kAuditPatience = absl::Seconds(1);

struct AuditEntry {
  std::string who, peer, method, job, pool, result, message, upload;
  // 0: none.
  int64_t call = 0;
};

// Thread-safe. A write that fails is reported in the program's log; the call goes on.
class AuditLog {
 public:
  // Makes the file, mode 0600. UNAVAILABLE: it cannot be opened; the message names it.
  static absl::StatusOr<std::unique_ptr<AuditLog>> Open(const std::string& path, Logger log);

  // Blocks at most kAuditPatience.
  void Write(const AuditEntry& entry) ABSL_LOCKS_EXCLUDED(mutex_);
  // Does not block: for what no call asks for.
  void Note(const AuditEntry& entry);
  // Before the call's handler runs; the entry's result is not used. Likewise.
  void WriteBegun(AuditEntry entry) ABSL_LOCKS_EXCLUDED(mutex_);

  // Call it now and then: a file that could not be written is tried again. Does not block.
  void Retry() { lines_.Retry(); }
  // UNAVAILABLE: the last line could not be written, or one is being written for so long that the
  // disk hangs. Does not block.
  absl::Status Health() const;
  // How long the write that runs now has lasted.
  absl::Duration stalled_for() const { return lines_.stalled_for(); }
  // How many lines are missing.
  int64_t dropped() const { return lines_.dropped(); }

  struct Callers {
    // Who makes a call, in words.
    std::function<std::string(const grpc::ServerContextBase&)> who;
    // Whether the rules refuse a call. Empty: they refuse none.
    std::function<bool(const grpc::ServerContextBase&)> refused;
  };
  // Watches the calls of audited methods; other calls are not touched. The log outlives the server.
  std::unique_ptr<grpc::experimental::ServerInterceptorFactoryInterface> MakeObserver(
      Callers callers);
  // Numbers a call.
  int64_t NextCall() { return ++calls_; }

 private:
  AuditLog(std::string path, LineQueue::Write write);
  void Append(const AuditEntry& entry, int64_t left_out, absl::Duration patience);

  const std::string path_;
  std::atomic<int64_t> calls_ = 0;
  absl::Mutex mutex_;
  LineLimit failed_calls_ ABSL_GUARDED_BY(mutex_){kFailedCallsLogged, absl::Seconds(1)};
  LineLimit begun_calls_ ABSL_GUARDED_BY(mutex_){kBegunCallsLogged, absl::Seconds(1)};
  CallRate pool_calls_{kPoolCallsLogged / 60.0, kPoolCallsLogged};
  int64_t pool_calls_left_out_ ABSL_GUARDED_BY(mutex_) = 0;
  LineQueue lines_;
};

}  // namespace longhaul::coordinator
