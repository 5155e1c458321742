#include "common/rpc/user_tokens.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/base/clock.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/status_details.h"
#include "openssl/crypto.h"
#include "openssl/sha.h"

namespace longhaul {
namespace {

constexpr absl::Duration kBetweenReads = absl::Seconds(1);

using Digest256 = std::array<uint8_t, 32>;

std::optional<Role> RoleOf(absl::string_view word) {
  for (const Role role : {Role::kViewer, Role::kSubmitter, Role::kAdmin}) {
    if (RoleName(role) == word) return role;
  }
  return std::nullopt;
}

std::optional<Digest256> TokenDigestOf(absl::string_view word) {
  Digest256 digest;
  if (!absl::ConsumePrefix(&word, "sha256:") || word.size() != 2 * digest.size() ||
      !std::all_of(word.begin(), word.end(), absl::ascii_isxdigit)) {
    return std::nullopt;
  }
  const std::string bytes = absl::HexStringToBytes(word);
  std::copy(bytes.begin(), bytes.end(), digest.begin());
  return digest;
}

absl::StatusOr<UserToken> ParseLine(absl::string_view line) {
  const std::vector<absl::string_view> words =
      absl::StrSplit(line, absl::ByAnyChar(" \t\r"), absl::SkipEmpty());
  if (words.size() != 3) return absl::InvalidArgumentError("expected NAME ROLE sha256:HEX");
  if (!IsName(words[0]))
    return absl::InvalidArgumentError(absl::StrCat("the name is not ", kNameForm));
  const std::optional<Role> role = RoleOf(words[1]);
  if (!role) return absl::InvalidArgumentError("the role is not viewer, submitter or admin");
  const std::optional<Digest256> digest = TokenDigestOf(words[2]);
  if (!digest) {
    // The text is not repeated, since it may be the token itself.
    return absl::InvalidArgumentError(
        "the third word is not sha256: and the 64 hex digits of the token's SHA-256");
  }
  return UserToken{{std::string(words[0]), *role}, *digest};
}

}  // namespace

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kViewer:
      return "viewer";
    case Role::kSubmitter:
      return "submitter";
    case Role::kAdmin:
      return "admin";
  }
  return "";
}

absl::StatusOr<std::vector<UserToken>> ParseTokens(absl::string_view text) {
  std::vector<UserToken> tokens;
  // The line and the user of each.
  std::map<Digest256, std::pair<int, std::string>> known;
  int number = 0;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    ++number;
    line = absl::StripAsciiWhitespace(line.substr(0, line.find('#')));
    if (line.empty()) continue;
    absl::StatusOr<UserToken> token = ParseLine(line);
    if (!token.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", token.status().message()));
    }
    const auto [same, is_new] = known.try_emplace(token->digest, number, token->user.name);
    if (!is_new) {
      const auto& [line_of_same, user] = same->second;
      return absl::InvalidArgumentError(
          absl::StrCat("line ", number, ": ", token->user.name, " has the token of line ",
                       line_of_same, " (", user, "): give each user a token of their own"));
    }
    tokens.push_back(*std::move(token));
  }
  return tokens;
}

absl::string_view BearerToken(absl::string_view authorization) {
  constexpr size_t kScheme = 7;
  if (!absl::EqualsIgnoreCase(authorization.substr(0, kScheme), "bearer ")) return "";
  const absl::string_view token = absl::StripAsciiWhitespace(authorization.substr(kScheme));
  return token.size() > kTokenBytesMax ? "" : token;
}

absl::StatusOr<std::unique_ptr<Tokens>> Tokens::Open(const std::string& flag,
                                                     const std::string& path, Logger log,
                                                     absl::Duration keep) {
  std::unique_ptr<Tokens> tokens(new Tokens(flag, path, std::move(log), keep));
  absl::StatusOr<std::vector<UserToken>> read = tokens->Read();
  if (absl::IsFailedPrecondition(read.status()))
    return absl::InvalidArgumentError(read.status().message());
  if (!read.ok()) return read.status();
  absl::MutexLock lock(&tokens->mutex_);
  tokens->tokens_ = *std::move(read);
  tokens->read_at_ = tokens->good_at_ = SteadyTime();
  if (tokens->tokens_.empty())
    tokens->log_.Warning(absl::StrCat(flag, " ", path, ": it lists no user"));
  return tokens;
}

absl::StatusOr<std::vector<UserToken>> Tokens::Read() const {
  LH_ASSIGN_OR_RETURN(const std::string text, ReadSecretFile(flag_, path_, kTokensBytesMax));
  absl::StatusOr<std::vector<UserToken>> tokens = ParseTokens(text);
  if (tokens.ok()) return tokens;
  return absl::InvalidArgumentError(
      absl::StrCat(flag_, " ", path_, ": ", tokens.status().message()));
}

void Tokens::Refresh() {
  const absl::Time now = SteadyTime();
  if (now - read_at_ < kBetweenReads) return;
  read_at_ = now;
  absl::StatusOr<std::vector<UserToken>> read = Read();
  if (read.ok()) {
    if (read->empty() && !tokens_.empty())
      log_.Warning(absl::StrCat(flag_, " ", path_, ": it lists no user any more"));
    tokens_ = *std::move(read);
    good_at_ = now;
    trouble_.clear();
    expired_ = false;
    return;
  }
  const bool kept = now - good_at_ < keep_;
  const bool said = trouble_ == read.status().message();
  trouble_ = std::string(read.status().message());
  if (kept && !said) {
    log_.Error(
        absl::StrCat(trouble_, "; the users that were read before stay for ",
                     absl::FormatDuration(absl::Trunc(keep_ - (now - good_at_), kBetweenReads)),
                     ", then no user is admitted"));
  }
  if (kept || std::exchange(expired_, true)) return;
  tokens_.clear();
  log_.Error(absl::StrCat(trouble_, "; no user is admitted until it is corrected"));
}

bool Tokens::refused() {
  absl::MutexLock lock(&mutex_);
  Refresh();
  return !trouble_.empty();
}

std::optional<User> Tokens::Find(absl::string_view token) {
  Digest256 digest;
  SHA256(reinterpret_cast<const unsigned char*>(token.data()), token.size(), digest.data());
  absl::MutexLock lock(&mutex_);
  Refresh();
  const User* found = nullptr;
  for (const UserToken& candidate : tokens_) {
    const bool same = CRYPTO_memcmp(candidate.digest.data(), digest.data(), digest.size()) == 0;
    found = same ? &candidate.user : found;
  }
  if (found == nullptr) return std::nullopt;
  return *found;
}

absl::StatusOr<User> Tokens::Authenticate(absl::string_view authorization) {
  const auto refuse = [](absl::string_view what, const char* reason, const char* hint) {
    return WithErrorInfo(absl::UnauthenticatedError(what),
                         {reason, {{"field", "authorization"}, {"hint", hint}}});
  };
  if (authorization.empty()) {
    return refuse("a token is needed", "TOKEN_NEEDED",
                  "give --token-file FILE or LONGHAUL_TOKEN_FILE to longhaul, "
                  "'Authorization: Bearer TOKEN' elsewhere");
  }
  const absl::string_view token = BearerToken(authorization);
  if (token.empty()) {
    return refuse("the Authorization header is not 'Bearer TOKEN'", "TOKEN_MALFORMED",
                  "give one header of this form; longhaul sends it with --token-file FILE");
  }
  std::optional<User> user = Find(token);
  if (user) return *std::move(user);
  absl::MutexLock lock(&mutex_);
  if (expired_) {
    return refuse("the server cannot read its token file, so it admits no users",
                  "TOKENS_UNREADABLE", "ask its operator to correct the file");
  }
  return refuse("unknown token: it is mistyped or has been revoked", "TOKEN_UNKNOWN",
                "ask the coordinator's operator for one");
}

}  // namespace longhaul
