#include "tests/simulation/damage.h"

#include <algorithm>
#include <vector>

#include "absl/strings/match.h"
#include "common/base/check.h"
#include "common/io/file_util.h"
#include "coordinator/store/data_folder.h"
#include "tests/simulation/model.h"

namespace longhaul::simulation {
namespace {

constexpr int64_t kFileMax = int64_t{1} << 30;
// The manifest and the header of a log's file have a digest of these bytes and more.
constexpr size_t kCovered = 32;

// The paths of the folder's files whose names end so, by name.
std::vector<std::string> FilesOf(FileSystem& disk, const std::string& folder,
                                 const std::string& end) {
  std::vector<std::string> files;
  for (const std::string& name : ListIfThere(disk, folder).value_or(std::vector<std::string>())) {
    if (absl::EndsWith(name, end)) files.push_back(JoinPath(folder, name));
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

std::string Damage::Strike(FileSystem& disk, MetaStore& meta, Random& random) {
  std::vector<std::string> jobs;
  const auto unended = meta.ListUnended();
  LH_CHECK(unended.ok(), "the database is whole");
  for (const JobRecord& job : *unended) {
    const std::string folder = JobFolder(kDataDir, job.id);
    if (!files_.contains(job.id) && !FilesOf(disk, JoinPath(folder, "log"), ".log").empty())
      jobs.push_back(job.id);
  }
  if (jobs.empty()) return "";
  const std::string& job = jobs[random.Below(jobs.size())];
  const std::string folder = JobFolder(kDataDir, job);
  const auto snapshots = FilesOf(disk, JoinPath(folder, "snap"), ".snap");
  enum Kind { kLog, kManifest, kSnapshot };
  Kind kind = static_cast<Kind>(random.Below(3));
  if (kind == kSnapshot && snapshots.empty()) kind = kManifest;
  const std::string path = kind == kLog ? FilesOf(disk, JoinPath(folder, "log"), ".log").front()
                           : kind == kManifest ? JoinPath(folder, "manifest")
                                               : snapshots[random.Below(snapshots.size())];
  absl::StatusOr<std::string> bytes = ReadFile(disk, path, kFileMax);
  LH_CHECK(bytes.ok() && bytes->size() >= kCovered, "the file is there, and whole");
  files_[job] = {path, *bytes};
  if (kind != kLog && random.Below(2) == 0) {
    LH_CHECK(disk.Remove(path).ok() && disk.SyncDir(ParentOf(path)).ok(), "the file is there");
  } else {
    (*bytes)[random.Below(kind == kSnapshot ? bytes->size() : kCovered)] ^=
        static_cast<char>(1 << random.Below(8));
    LH_CHECK(WriteFileAtomically(disk, path, *bytes).ok(), "the disk has room");
  }
  return job;
}

void Damage::Repair(FileSystem& disk, const std::string& job) {
  const auto file = files_.find(job);
  const auto& [path, bytes] = file->second;
  // The job's files may have been removed, after its end.
  if (disk.List(ParentOf(path)).ok())
    LH_CHECK(WriteFileAtomically(disk, path, bytes).ok(), "the disk has room");
  files_.erase(file);
}

}  // namespace longhaul::simulation
