// Users' bearer tokens: a file with one user a line,
//   NAME ROLE sha256:HEX     # viewer, submitter or admin; HEX: the SHA-256 of the token
// Empty lines and what follows '#' do not count. A name has several lines while its token is
// replaced. The file has digests alone, so that whoever sees a copy of it is not let in; tokens are
// long and random (openssl rand -hex 32), so a plain digest does not give them away.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "common/logging/logging.h"
#include "coordinator/access/methods.h"

namespace longhaul::coordinator {

struct User {
  std::string name;
  Role role = Role::kViewer;
  friend bool operator==(const User&, const User&) = default;
};

struct UserToken {
  User user;
  std::array<uint8_t, 32> digest = {};
};

inline constexpr int64_t kTokensBytesMax = 1 << 20;

// INVALID_ARGUMENT names the line. At least one user. Pure.
absl::StatusOr<std::vector<UserToken>> ParseTokens(absl::string_view text);

// The token in the value of an Authorization header; empty: there is none. Pure.
absl::string_view BearerToken(absl::string_view authorization);

// Thread-safe. Looks at the file again at most once a second; while it cannot be used, what was
// read last is in force, and the log says why.
class Tokens {
 public:
  // `flag`: what gave the path, for messages. Errors: those of ReadSecretFile and ParseTokens.
  static absl::StatusOr<std::unique_ptr<Tokens>> Open(const std::string& flag,
                                                      const std::string& path, Logger log);

  // Whose token this is; nothing: nobody's. Takes as long whether it is one or not.
  std::optional<User> Find(absl::string_view token) ABSL_LOCKS_EXCLUDED(mutex_);

  // UNAUTHENTICATED, with what to do, unless the header has the token of a user.
  absl::StatusOr<User> Authenticate(absl::string_view authorization);

 private:
  Tokens(std::string flag, std::string path, Logger log)
      : flag_(std::move(flag)), path_(std::move(path)), log_(std::move(log)) {}
  absl::StatusOr<std::vector<UserToken>> Read() const;
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string flag_, path_;
  const Logger log_;
  absl::Mutex mutex_;
  std::vector<UserToken> tokens_ ABSL_GUARDED_BY(mutex_);
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_);
  std::string trouble_ ABSL_GUARDED_BY(mutex_);  // As last logged.
};

}  // namespace longhaul::coordinator
