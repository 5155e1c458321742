#include "worker/state/state_folders.h"

#include <sys/stat.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr size_t kStateNameMax = 200;
// Lines of: whole hours, the nanoseconds of the last write, the job.
constexpr absl::string_view kUnwritten = "unwritten-jobs";
constexpr int64_t kUnwrittenBytesMax = 1 << 20;

std::string AsName(std::string text) {
  text.resize(std::min(text.size(), kStateNameMax));
  for (char& c : text) {
    if (!absl::ascii_isalnum(c) && c != '-' && c != '_') c = '_';
  }
  return text.empty() ? "_" : text;
}

// Takes digits from the front.
template <typename Number>
bool TakeNumber(absl::string_view& text, Number& number) {
  size_t digits = 0;
  while (digits < text.size() && absl::ascii_isdigit(text[digits])) ++digits;
  const bool ok = absl::SimpleAtoi(text.substr(0, digits), &number);
  text.remove_prefix(digits);
  return ok;
}

// The newest time of a file in the folder. InfiniteFuture: it is no folder of inner state.
absl::Time LastWrite(FileSystem& fs, const std::string& folder) {
  const auto names = fs.List(folder);
  if (!names.ok() || names->empty()) return absl::InfiniteFuture();
  absl::Time newest = absl::InfinitePast();
  for (const std::string& name : *names) {
    struct stat info;
    if (!IsStateFile(name) || stat(JoinPath(folder, name).c_str(), &info) != 0 ||
        !S_ISREG(info.st_mode))
      return absl::InfiniteFuture();
    newest = std::max(newest, absl::TimeFromTimespec(info.st_mtim));
  }
  return newest;
}

}  // namespace

std::string PoolStateFolder(const std::string& folder, const std::string& pool) {
  return JoinPath(folder, AsName(pool));
}

std::string JobStateFolder(const std::string& folder, const std::string& pool,
                           const std::string& job) {
  return JoinPath(PoolStateFolder(folder, pool), AsName(job));
}

std::string StateFileName::Text() const {
  return absl::StrFormat("step-%012d.rank-%d-of-%d.safetensors", step, rank, ranks);
}

std::optional<StateFileName> StateFileName::Parse(absl::string_view name) {
  StateFileName result;
  absl::string_view rest = name;
  const bool ok = absl::ConsumePrefix(&rest, "step-") && TakeNumber(rest, result.step) &&
                  absl::ConsumePrefix(&rest, ".rank-") && TakeNumber(rest, result.rank) &&
                  absl::ConsumePrefix(&rest, "-of-") && TakeNumber(rest, result.ranks);
  if (!ok || result.Text() != name) return std::nullopt;
  return result;
}

bool IsStateFile(absl::string_view name) {
  absl::ConsumeSuffix(&name, ".tmp");
  return StateFileName::Parse(name).has_value();
}

std::vector<std::string> KeptJobs(FileSystem& fs, const std::string& pool_folder) {
  std::vector<std::string> jobs;
  const auto names = fs.List(pool_folder);
  if (!names.ok()) return jobs;
  for (const std::string& name : *names) {
    if (LastWrite(fs, JoinPath(pool_folder, name)) != absl::InfiniteFuture()) jobs.push_back(name);
  }
  return jobs;
}

absl::Status RemoveKeptJob(FileSystem& fs, const std::string& pool_folder, const std::string& job) {
  const std::string folder = JoinPath(pool_folder, AsName(job));
  if (LastWrite(fs, folder) == absl::InfiniteFuture())
    return absl::FailedPreconditionError(absl::StrCat(folder, ": is not a folder of inner state"));
  return RemoveFolder(fs, folder);
}

std::vector<std::string> UnwrittenJobs::Look(FileSystem& fs, const std::string& pool_folder,
                                             const std::vector<std::string>& jobs, absl::Time now) {
  if (!std::exchange(read_, true)) Read(fs, pool_folder, now);
  std::vector<std::string> forgotten;
  std::map<std::string, Seen> seen;
  for (const std::string& job : jobs) {
    const absl::Time last_write = LastWrite(fs, JoinPath(pool_folder, job));
    const auto before = seen_.find(job);
    const bool same = before != seen_.end() && before->second.last_write == last_write;
    const absl::Time since = same ? before->second.since : now;
    seen[job] = {last_write, since};
    if (now - since >= forgotten_after_) forgotten.push_back(job);
  }
  seen_ = std::move(seen);
  Write(fs, pool_folder, now);
  return forgotten;
}

void UnwrittenJobs::Read(FileSystem& fs, const std::string& pool_folder, absl::Time now) {
  const absl::StatusOr<std::string> text =
      ReadFile(fs, JoinPath(pool_folder, kUnwritten), kUnwrittenBytesMax);
  if (!text.ok()) return;
  kept_ = *text;
  for (const absl::string_view line : absl::StrSplit(*text, '\n')) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::MaxSplits(' ', 2));
    int64_t hours = 0, last_write = 0;
    if (words.size() != 3 || !absl::SimpleAtoi(words[0], &hours) || hours < 0 ||
        !absl::SimpleAtoi(words[1], &last_write))
      continue;
    seen_[std::string(words[2])] = {absl::FromUnixNanos(last_write), now - absl::Hours(hours)};
  }
}

// Without a sync, since the thread that looks keeps the lease. Of what a crash may leave, a line
// that is cut counts for nothing.
void UnwrittenJobs::Write(FileSystem& fs, const std::string& pool_folder, absl::Time now) {
  std::string text;
  for (const auto& [job, seen] : seen_) {
    const int64_t hours = absl::ToInt64Hours(now - seen.since);
    if (hours < 1) continue;
    absl::StrAppend(&text, hours, " ", absl::ToUnixNanos(seen.last_write), " ", job, "\n");
  }
  if (text == kept_) return;
  const std::string path = JoinPath(pool_folder, kUnwritten), fresh = path + ".tmp";
  if (text.empty()) {
    if (fs.Remove(path).ok()) kept_.clear();
    return;
  }
  const absl::StatusOr<std::unique_ptr<File>> file = fs.Create(fresh);
  if (file.ok() && (*file)->Append(text).ok() && fs.Rename(fresh, path).ok()) kept_ = text;
}

}  // namespace longhaul
