// `longhaul tokens`: needs no coordinator. The file of users is that of its --tokens.
#include <fcntl.h>
#include <unistd.h>

#include <cerrno>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/names.h"
#include "common/base/random_hex.h"
#include "common/base/status_macros.h"
#include "common/io/file_error.h"
#include "common/io/sha256.h"
#include "common/rpc/secret_file.h"
#include "common/rpc/user_tokens.h"
#include "coordinator/cli/certificate_authority.h"
#include "coordinator/cli/commands.h"

namespace longhaul::cli {
namespace {

constexpr char kTokensFlag[] = "--tokens";
constexpr mode_t kOwnerAlone = 0600;

// What the file has. Nothing: it does not exist.
absl::StatusOr<std::string> ReadUsers(const std::string& path) {
  absl::StatusOr<std::string> text = ReadSecretFile(kTokensFlag, path, kTokensBytesMax);
  if (absl::IsNotFound(text.status())) return std::string();
  LH_RETURN_IF_ERROR(text.status());
  const absl::Status parsed = ParseTokens(*text).status();
  if (parsed.ok()) return text;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", parsed.message()));
}

// One write, so that a coordinator which reads meanwhile sees the line or does not.
absl::Status AppendLine(const std::string& path, const std::string& line) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, kOwnerAlone);
  if (fd < 0) return FileError(errno, path);
  const bool written =
      write(fd, line.data(), line.size()) == static_cast<ssize_t>(line.size()) && fsync(fd) == 0;
  const int error = errno;
  close(fd);
  return written ? absl::OkStatus() : FileError(error, path);
}

absl::Status AddUser(const std::string& name, const std::string& role, const std::string& users,
                     const std::string& out) {
  if (!IsName(name)) return absl::InvalidArgumentError(absl::StrCat("NAME is not ", kNameForm));
  LH_ASSIGN_OR_RETURN(const std::string text, ReadUsers(users));
  const std::string token = RandomHex() + RandomHex();
  LH_RETURN_IF_ERROR(WriteNew(out, token + "\n", kOwnerAlone));
  const bool whole = text.empty() || absl::EndsWith(text, "\n");
  const absl::Status added = AppendLine(
      users, absl::StrCat(whole ? "" : "\n", name, " ", role, " sha256:", Sha256Hex(token), "\n"));
  if (!added.ok()) unlink(out.c_str());
  return added;
}

}  // namespace

Outcome AddToken(const Arguments& arguments) {
  const std::string out = arguments.out.empty() ? arguments.user + ".token" : arguments.out;
  const absl::Status added = AddUser(arguments.user, arguments.role, arguments.tokens_file, out);
  if (!added.ok()) return ErrorOf(added, ExitOfFiles(added));
  return {Json{{"user", arguments.user},
               {"role", arguments.role},
               {"tokens", arguments.tokens_file},
               {"token_file", out}},
          absl::StrCat(arguments.user, " is a ", arguments.role, " of coordinators with --tokens ",
                       arguments.tokens_file, "; they read it again within a second. ", out,
                       " has the token: give it to ", arguments.user,
                       ", for --token-file, and keep no copy\n")};
}

}  // namespace longhaul::cli
