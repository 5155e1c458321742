// Users' bearer tokens: a file with one user in each line,
//   NAME ROLE sha256:HEX     # viewer, submitter or admin; HEX: the SHA-256 of the token
// Empty lines and text after '#' are ignored. A name may have several lines, for the time in which
// its token is replaced. The file has only digests, so a copy of it gives no access. Tokens are
// long and random (openssl rand -hex 32), so a plain digest does not reveal them.
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

namespace longhaul {

// The roles of people and their tools. Each may also do what the roles before it may.
enum class Role { kViewer, kSubmitter, kAdmin };
absl::string_view RoleName(Role role);

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

// How long users stay in force after their file could be read last.
inline constexpr absl::Duration kTokensKept = absl::Minutes(10);

// INVALID_ARGUMENT names the line. A token has one line; a text without users is a list of none.
// Pure.
absl::StatusOr<std::vector<UserToken>> ParseTokens(absl::string_view text);

// The token in the value of an Authorization header, or empty. Pure.
absl::string_view BearerToken(absl::string_view authorization);

// Thread-safe. Looks at the file again at most once a second. Who is not in it any more is out,
// also when nobody is left. While the file cannot be used, its last good content stays in force for
// a while, so that a careless edit ends nobody's work; then nobody is let in. The log says both.
class Tokens {
 public:
  // `flag`: the flag that gave the path, for messages. `keep`: how long the last good content stays
  // in force.
  //   NOT_FOUND, PERMISSION_DENIED, UNAVAILABLE  there is no file, or it cannot be read, which may
  //                     pass
  //   INVALID_ARGUMENT  its content is wrong, or others may read it
  static absl::StatusOr<std::unique_ptr<Tokens>> Open(const std::string& flag,
                                                      const std::string& path, Logger log,
                                                      absl::Duration keep = kTokensKept);

  // Whether the file cannot be used as it is now.
  bool refused() ABSL_LOCKS_EXCLUDED(mutex_);

  // The user with this token, or nothing. It takes the same time for a valid and an invalid token.
  std::optional<User> Find(absl::string_view token) ABSL_LOCKS_EXCLUDED(mutex_);

  // UNAUTHENTICATED (TOKEN_NEEDED, TOKEN_MALFORMED, TOKEN_UNKNOWN, TOKENS_UNREADABLE), with a hint,
  // unless the header has the token of a user.
  absl::StatusOr<User> Authenticate(absl::string_view authorization);

 private:
  Tokens(std::string flag, std::string path, Logger log, absl::Duration keep)
      : flag_(std::move(flag)), path_(std::move(path)), log_(std::move(log)), keep_(keep) {}
  absl::StatusOr<std::vector<UserToken>> Read() const;
  void Refresh() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const std::string flag_, path_;
  const Logger log_;
  const absl::Duration keep_;
  absl::Mutex mutex_;
  std::vector<UserToken> tokens_ ABSL_GUARDED_BY(mutex_);
  // Of SteadyTime: of the last look, and of the last one that found a good file.
  absl::Time read_at_ ABSL_GUARDED_BY(mutex_), good_at_ ABSL_GUARDED_BY(mutex_);
  // Why the file is refused, as it was logged. Empty: it is not.
  std::string trouble_ ABSL_GUARDED_BY(mutex_);
  // It has been refused for too long: tokens_ is empty for that reason.
  bool expired_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace longhaul
