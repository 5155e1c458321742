// The files of TLS, read again while the process lives. What can be used is given on, all files at
// once; while the files cannot be used, the last good ones stay in use, and the log says why, once
// for each reason.
//
// gRPC has a reader of its own for such files (FileWatcherCertificateProvider), but that takes
// whatever it finds: with half a file, or the key of another certificate, every new connection
// fails. So it reads copies in memory, which get only what was checked.
//
// Thread-safe. It has a thread, which the destructor waits for: as long as a file system blocks.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/synchronization/notification.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "common/rpc/memory_file.h"
#include "common/rpc/revocation_list.h"
#include "common/rpc/tls_files.h"

namespace longhaul {

class TlsReload {
 public:
  struct Options {
    TlsFiles files;
    // `files` has the authorities alone.
    bool authorities_only = false;
    // How often the files are looked at.
    absl::Duration every = absl::Seconds(10);
    // What is said of files that changed. Empty: nothing is.
    std::optional<Logger> log;
  };

  // Reads the files. Errors: those of ReadTlsFiles or ReadAuthorities, and
  //   UNAVAILABLE  the system gives no memory or no descriptor
  static absl::StatusOr<std::unique_ptr<TlsReload>> Start(Options options);
  ~TlsReload();

  // Of the copy of the authorities.
  const std::string& ca_path() const { return ca_->path(); }
  // Of the copy of key and certificate. They are one file, so that a reader cannot get one of them
  // from before a change and the other from after it. Empty with `authorities_only`.
  std::string identity_path() const { return identity_ == nullptr ? "" : identity_->path(); }

  // Whether the files cannot be used as they are now.
  bool refused() const ABSL_LOCKS_EXCLUDED(mutex_);
  // What is in use now.
  TlsContents contents() const ABSL_LOCKS_EXCLUDED(mutex_);
  // Whether the authority has revoked a certificate, in PEM (TlsFiles::crl). Answers come from a
  // memory, so that each call can ask.
  bool IsRevoked(const std::string& certificate) const ABSL_LOCKS_EXCLUDED(mutex_);
  // When the certificate in use ends. Nothing with `authorities_only`.
  std::optional<absl::Time> certificate_until() const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit TlsReload(Options options) : options_(std::move(options)) {}
  absl::StatusOr<TlsContents> Read() const;
  absl::Status Take(const TlsContents& contents) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  void Look() ABSL_LOCKS_EXCLUDED(mutex_);

  const Options options_;
  std::unique_ptr<MemoryFile> ca_, identity_;
  mutable absl::Mutex mutex_;
  TlsContents in_use_ ABSL_GUARDED_BY(mutex_);
  std::optional<absl::Time> until_ ABSL_GUARDED_BY(mutex_);
  // Empty: no certificate is revoked.
  std::optional<RevocationList> revoked_ ABSL_GUARDED_BY(mutex_);
  // What it says of certificates that were asked about.
  mutable absl::flat_hash_map<std::string, bool> known_ ABSL_GUARDED_BY(mutex_);
  // Why the files are refused, as it was logged.
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  absl::Notification stop_;
  std::thread thread_;
};

}  // namespace longhaul
