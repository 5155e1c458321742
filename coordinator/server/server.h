// The coordinator in one object: opens the data folder, recovers what is in it, serves gRPC and
// metrics. Used by main and, in the same process, by tests (port 0, then address()).
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
#include "common/logging/logging.h"
#include "common/rpc/tls.h"
#include "coordinator/effects/performer.h"

namespace longhaul::coordinator {

struct CoordinatorServerOptions {
  std::string listen = "127.0.0.1:0";  // HOST:PORT of gRPC. Port 0: any free one.
  std::string
      http_listen;       // HOST:PORT of the status page, /metrics, /healthz, /readyz. Empty: none.
  std::string data_dir;  // Made if it is not there. Required.
  // Folders of checkpoints that jobs may begin with (init.folder) lie in it. Empty: nowhere.
  std::string import_dir;
  std::shared_ptr<const Tls> tls;  // Of gRPC. Null: plaintext.
  // Of users' bearer tokens (coordinator/access/tokens.h). Empty: none; certificates alone tell who
  // calls. Needs tls: no token travels in plaintext.
  std::string tokens_file;
  std::string audit_log;           // File; empty: none.
  double calls_per_second = 1000;  // Of each caller, with tls. 0: no limit.
  // What other machines reach without TLS or tokens is open to everybody there: must be asked for.
  bool insecure = false;
  CoordinatorOptions core;  // Lease, final evaluation, most pools.
  // Rounds that are applied at one time, each on all cores.
  int apply_threads = 2;
  // Chunks of streams that are logged or read at one time.
  int bulk_threads = 16;
  LogOptions log = {.program = "longhaul-coordinator"};
  Clock* clock = nullptr;    // Null: the machine's. Else it outlives the server.
  FileSystem* fs = nullptr;  // Likewise; for the jobs' stores.
  // Called once, from any thread, when the durable state can promise nothing more: nothing is
  // published after it. Empty: the process exits with status 1.
  std::function<void(const absl::Status&)> on_fatal;
};

class CoordinatorServer {
 public:
  //   INVALID_ARGUMENT     a malformed address; what is open beyond localhost, not asked for; tokens
  //                        without TLS, or a file of them that cannot be used
  //   UNAVAILABLE          an address cannot be bound, a file not written, or another coordinator
  //                        uses the data folder
  //   DATA_LOSS, FAILED_PRECONDITION
  //                        the data folder is damaged, or of another version; the message names the
  //                        file
  static absl::StatusOr<std::unique_ptr<CoordinatorServer>> Start(CoordinatorServerOptions options);
  // Shutdown without grace.
  ~CoordinatorServer();

  const std::string& address() const;  // Of gRPC, with the port that was given.
  std::string http_address() const;    // Empty: none.

  // Health says NOT_SERVING, streams end with UNAVAILABLE, calls in flight have `grace`, state is
  // persisted. Blocks. Later calls return at once.
  void Shutdown(absl::Duration grace);

 private:
  class Impl;
  explicit CoordinatorServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace longhaul::coordinator
