// The coordinator in one object: opens the data folder, recovers its content, and serves gRPC and
// metrics. The program uses it, and so do tests in their own process (with port 0, then address()).
//
// Thread-safe. Start blocks while state is recovered.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "common/base/clock.h"
#include "common/io/filesystem.h"
#include "common/io/slow_operations.h"
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "coordinator/effects/performer.h"
#include "coordinator/store/uploads.h"

namespace longhaul::coordinator {

struct CoordinatorServerOptions {
  // HOST:PORT of gRPC. Port 0: any free one.
  std::string listen = "127.0.0.1:0";
  // HOST:PORT of the status page, /metrics, /healthz and /readyz. Empty: they are not served.
  std::string http_listen;
  // Made if it does not exist. Required.
  std::string data_dir;
  // A job may begin with a checkpoint folder (init.folder) only if it is inside this folder. Empty:
  // no job may.
  std::string import_dir;
  // Folders that users send for jobs to begin with (coordinator/store/uploads.h): bytes of all of
  // them (0: none may be sent), and how long one stays that no job needs.
  int64_t upload_bytes_max = kUploadBytesDefault;
  absl::Duration upload_keep = kUploadKeepDefault;
  // TLS of gRPC. Null: plaintext.
  std::shared_ptr<const Tls> tls;
  // The users' bearer tokens (common/rpc/user_tokens.h). Empty: none; then only certificates
  // identify callers. Needs `tls`, since tokens must not travel in plaintext.
  std::string tokens_file;
  // The HTTP port uses `tls`, too, and shows the same certificate.
  bool http_tls = false;
  // A client with a token needs no certificate. Only with `tokens_file`.
  bool allow_token_only = false;
  // A file; empty: none.
  std::string audit_log;
  // The limit for each caller, with `tls`. 0: no limit.
  double calls_per_second = 1000;
  // Must be set if other machines can reach a port without TLS or tokens, since it is then open to
  // everybody there.
  bool insecure = false;
  // Lease, final evaluation, the most pools. Its `memory`: 0 stands for nine tenths of what the
  // machine, or the cgroup, has.
  CoordinatorOptions core = {.memory = 0};
  // A job is deleted when it was kept for so long after its end.
  absl::Duration ended_job_keep = absl::InfiniteDuration();
  LogOptions log = {.program = "longhaul-coordinator"};
  // Null: the machine's clock. Otherwise it outlives the server.
  Clock* clock = nullptr;
  // The file system of the jobs' stores. Null: the machine's. Otherwise it outlives the server.
  FileSystem* fs = nullptr;
  // Knows the operations of the disk that are in progress. Null: the server has its own.
  std::shared_ptr<SlowOperations> operations;
  // How long an operation of the disk, or a turn of the owner thread, may last before it counts as
  // hanging.
  absl::Duration slow = kSlowOperation;
  // Called once, on any thread, when the durable state can guarantee nothing more. Nothing is
  // published after it. Empty: the process exits with status 1.
  std::function<void(const absl::Status&)> on_fatal;
};

class CoordinatorServer {
 public:
  // Errors:
  //   INVALID_ARGUMENT     a malformed address; a port that is open beyond localhost without being
  //                        allowed; tokens without TLS, or a file of them that cannot be used
  //   UNAVAILABLE          an address cannot be bound, a file not written, or another coordinator
  //                        uses the data folder
  //   DATA_LOSS, FAILED_PRECONDITION
  //                        the data folder is damaged, or of another version; the message names the
  //                        file
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(CoordinatorServerOptions options);
  // Shutdown without grace.
  ~CoordinatorServer();

  // HOST:PORT of gRPC, with the real port.
  const std::string& address() const;
  // Empty if it is not served.
  std::string http_address() const;

  // What stands still for at least so long, and holds up the coordinator or its end: an operation
  // of the disk, a decision, a line of the audit log. In words; empty: nothing. Any thread, and
  // while Shutdown runs, too. Does not block.
  std::string Stands(absl::Duration at_least) const;

  // Ends the service: health becomes NOT_SERVING, streams end with UNAVAILABLE, calls in progress
  // get `grace`, and state is persisted. Blocks. Later calls return at once.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit CoordinatorServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::coordinator
