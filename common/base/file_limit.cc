#include "common/base/file_limit.h"

#include <cerrno>

#include "absl/strings/str_cat.h"

namespace longhaul {
namespace {

constexpr char kHowToRaise[] =
    "raise the limit of open files (ulimit -n, LimitNOFILE= of systemd, --ulimit nofile of a "
    "container)";

// RLIM_INFINITY is larger than any need.
rlim_t FileLimit() {
  rlimit limit{};
  return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

}  // namespace

// A quarter of them never gets a connection (common/rpc/listener).
int CoordinatorFilesNeeded() { return 64; }
int CliFilesNeeded() { return 24; }
int AgentFilesNeeded(int ranks) { return 32 + 8 * ranks; }
int RankFilesNeeded(int ranks_of_pool) { return 32 + 2 * ranks_of_pool; }

absl::Status CheckFiles(int needed) {
  const rlim_t limit = FileLimit();
  if (limit >= static_cast<rlim_t>(needed)) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrCat("the system lets this process have ", limit,
                                                   " files and connections open (ulimit -n), and "
                                                   "about ",
                                                   needed, " are needed: ", kHowToRaise));
}

std::string FileLimitWords(int error) {
  if (error != EMFILE) return "";
  return absl::StrCat(" (ulimit -n is ", FileLimit(), ": ", kHowToRaise, ")");
}

}  // namespace longhaul
