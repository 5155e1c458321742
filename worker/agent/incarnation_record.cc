#include "worker/agent/incarnation_record.h"

#include <filesystem>
#include <fstream>
#include <system_error>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/names.h"
#include "common/base/status_macros.h"
#include "common/io/digest.h"

namespace longhaul {
namespace {

constexpr int kRecordsMax = 256;
constexpr size_t kBytesMax = 256;

}  // namespace

absl::StatusOr<IncarnationRecord> IncarnationRecord::Open(const std::string& folder,
                                                          const std::string& pool,
                                                          const std::string& coordinator,
                                                          const std::string& boot) {
  std::error_code shown_by_open;
  std::filesystem::create_directories(folder, shown_by_open);
  const std::string name = absl::StrCat(pool, "-", DigestOf(coordinator).Hex().substr(0, 16), ".");
  for (int i = 0; i < kRecordsMax; ++i) {
    FileLock lock;
    LH_RETURN_IF_ERROR(lock.Open(absl::StrCat(folder, "/", name, i)));
    LH_ASSIGN_OR_RETURN(const bool ours, lock.Try());
    if (!ours) continue;
    IncarnationRecord record(std::move(lock), boot);
    LH_ASSIGN_OR_RETURN(const std::string text, record.lock_.Read(kBytesMax));
    const std::vector<std::string> words = absl::StrSplit(absl::StripAsciiWhitespace(text), ' ');
    if (words.size() == 2 && words[0] == boot && IsIncarnation(words[1])) record.before_ = words[1];
    return record;
  }
  return absl::ResourceExhaustedError(
      absl::StrCat(kRecordsMax, " agents of this pool run on this machine"));
}

absl::Status IncarnationRecord::Write(const std::string& incarnation) {
  return lock_.Write(absl::StrCat(boot_, " ", incarnation, "\n"));
}

absl::StatusOr<std::string> BootId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string id;
  if (std::getline(file, id) && !id.empty()) return id;
  return absl::NotFoundError("the system has no boot_id");
}

}  // namespace longhaul
