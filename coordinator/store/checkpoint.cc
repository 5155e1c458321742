#include "coordinator/store/checkpoint.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/checkpoint/reader.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/paced_write.h"

namespace longhaul {
namespace {

constexpr absl::string_view kPrefix = "step-", kTemporary = ".tmp", kReplaced = ".old";

bool IsCheckpoint(absl::string_view name) {
  return absl::StartsWith(name, kPrefix) && !absl::EndsWith(name, kTemporary) &&
         !absl::EndsWith(name, kReplaced);
}

absl::Status WriteNewFile(FileSystem& fs, const std::string& path, absl::string_view bytes) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Create(path));
  return WritePaced(*file, 0, bytes);
}

std::string NameOf(int64_t step) { return absl::StrFormat("%s%08d", kPrefix, step); }

// Sorts by step. A longer name has a larger step, since NameOf pads shorter numbers with zeros.
void SortByStep(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
}

absl::StatusOr<std::vector<std::string>> ListNames(FileSystem& fs, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(std::vector<std::string> names, ListIfThere(fs, folder));
  std::erase_if(names, [](const std::string& name) { return !IsCheckpoint(name); });
  SortByStep(names);
  return names;
}

// Whether a reader of one has what a reader of the other has. When they were written may differ.
bool IsSame(const v1::CheckpointManifest& a, const v1::CheckpointManifest& b) {
  return a.final() == b.final() && a.last() == b.last() &&
         std::equal(a.fragments().begin(), a.fragments().end(), b.fragments().begin(),
                    b.fragments().end(), [](const auto& left, const auto& right) {
                      return left.version() == right.version() &&
                             left.digest_hex() == right.digest_hex();
                    });
}

// Removes the oldest beyond `keep`, except those in use. A folder loses its name before its files,
// so that a crash leaves no checkpoint without them.
absl::Status RemoveOldest(FileSystem& fs, const std::string& folder,
                          const std::vector<std::string>& names, int keep,
                          const std::set<int64_t>& in_use) {
  std::set<std::string> kept;
  for (const int64_t step : in_use) kept.insert(NameOf(step));
  std::vector<std::string> removed;
  for (int i = 0; i + keep < static_cast<int>(names.size()); ++i) {
    if (kept.contains(names[i])) continue;
    const std::string path = JoinPath(folder, names[i]);
    removed.push_back(absl::StrCat(path, kTemporary));
    LH_RETURN_IF_ERROR(fs.Rename(path, removed.back()));
  }
  if (!removed.empty()) LH_RETURN_IF_ERROR(fs.SyncDir(folder));
  for (const std::string& path : removed) LH_RETURN_IF_ERROR(RemoveFolder(fs, path));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<v1::CheckpointManifest>> ListCheckpoints(FileSystem& fs,
                                                                    const std::string& job_dir) {
  const std::string folder = CheckpointFolder(job_dir);
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListNames(fs, folder));
  std::vector<v1::CheckpointManifest> manifests;
  for (const std::string& name : names) {
    absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, JoinPath(folder, name));
    if (manifest.ok()) manifests.push_back(*std::move(manifest));
  }
  return manifests;
}

std::string CheckpointPath(const std::string& job_dir, int64_t step) {
  return JoinPath(CheckpointFolder(job_dir), NameOf(step));
}

absl::StatusOr<std::vector<int64_t>> CheckpointSteps(FileSystem& fs, const std::string& job_dir) {
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                      ListNames(fs, CheckpointFolder(job_dir)));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    int64_t step = 0;
    if (absl::SimpleAtoi(absl::StripPrefix(name, kPrefix), &step)) steps.push_back(step);
  }
  return steps;
}

absl::StatusOr<int64_t> FindCheckpoint(FileSystem& fs, const std::string& job_dir,
                                       std::optional<int64_t> step) {
  LH_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, CheckpointSteps(fs, job_dir));
  if (steps.empty()) return absl::NotFoundError("no checkpoints");
  const int64_t wanted = step.value_or(steps.back());
  if (std::find(steps.begin(), steps.end(), wanted) != steps.end()) return wanted;
  return absl::NotFoundError(absl::StrCat("no checkpoint of step ", wanted));
}

std::vector<absl::Status> CheckCheckpoint(FileSystem& fs, const std::string& folder) {
  std::vector<absl::Status> faults;
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, folder);
  if (!manifest.ok()) return {manifest.status()};
  for (const v1::CheckpointFragment& fragment : manifest->fragments()) {
    absl::Status checked = VerifyFile(fs, folder, fragment);
    if (!checked.ok()) faults.push_back(std::move(checked));
  }
  return faults;
}

CheckpointWriter::CheckpointWriter(FileSystem* fs, std::string job_dir,
                                   v1::CheckpointManifest manifest)
    : fs_(fs),
      folder_(CheckpointFolder(job_dir)),
      name_(NameOf(manifest.step())),
      temporary_(JoinPath(folder_, absl::StrCat(name_, kTemporary))),
      manifest_(std::move(manifest)) {
  manifest_.set_format_version(kManifestFormat);
  manifest_.set_path(JoinPath(folder_, name_));
  manifest_.clear_fragments();
}

absl::StatusOr<CheckpointWriter> CheckpointWriter::Begin(FileSystem* fs, const std::string& job_dir,
                                                         v1::CheckpointManifest manifest) {
  LH_RETURN_IF_ERROR(CleanCheckpoints(*fs, job_dir));
  CheckpointWriter writer(fs, job_dir, std::move(manifest));
  LH_RETURN_IF_ERROR(fs->CreateDir(writer.temporary_));
  return writer;
}

absl::Status CheckpointWriter::AddFragment(int64_t version, const Digest128& digest,
                                           absl::Span<const float> values) {
  v1::CheckpointFragment& fragment = *manifest_.add_fragments();
  fragment.set_fragment(manifest_.fragments_size() - 1);
  fragment.set_version(version);
  fragment.set_elements(values.size());
  fragment.set_file(absl::StrFormat("fragment-%03d.f32", fragment.fragment()));
  *fragment.mutable_digest() = ToProto(digest);
  return WriteNewFile(*fs_, JoinPath(temporary_, fragment.file()), BytesOf(values));
}

absl::StatusOr<v1::CheckpointManifest> CheckpointWriter::Finish(int keep,
                                                                const std::set<int64_t>& in_use) {
  CompleteManifest(manifest_);
  LH_ASSIGN_OR_RETURN(const std::string json, ManifestToJson(manifest_));
  LH_RETURN_IF_ERROR(WriteNewFile(*fs_, JoinPath(temporary_, kManifestFile), json));
  LH_RETURN_IF_ERROR(fs_->SyncDir(temporary_));
  LH_ASSIGN_OR_RETURN(std::vector<std::string> names, ListNames(*fs_, folder_));
  const std::string target = JoinPath(folder_, name_), replaced = absl::StrCat(target, kReplaced);
  const bool replaces = std::find(names.begin(), names.end(), name_) != names.end();
  absl::StatusOr<v1::CheckpointManifest> there = absl::NotFoundError(target);
  if (replaces) there = ReadManifest(*fs_, target);
  if (there.ok() && IsSame(*there, manifest_)) {
    // Left alone, since somebody may read it.
    manifest_ = *std::move(there);
    LH_RETURN_IF_ERROR(RemoveFolder(*fs_, temporary_));
  } else {
    if (replaces) {
      LH_RETURN_IF_ERROR(fs_->Rename(target, replaced));
    } else {
      names.push_back(name_);
      SortByStep(names);
    }
    LH_RETURN_IF_ERROR(fs_->Rename(temporary_, target));
    LH_RETURN_IF_ERROR(fs_->SyncDir(folder_));
    if (replaces) LH_RETURN_IF_ERROR(RemoveFolder(*fs_, replaced));
  }
  LH_RETURN_IF_ERROR(RemoveOldest(*fs_, folder_, names, keep, in_use));
  return manifest_;
}

absl::Status CleanCheckpoints(FileSystem& fs, const std::string& job_dir) {
  const std::string folder = CheckpointFolder(job_dir);
  LH_ASSIGN_OR_RETURN(const std::vector<std::string> names, fs.List(folder));
  for (const std::string& name : names) {
    const std::string path = JoinPath(folder, name);
    if (absl::EndsWith(name, kTemporary)) LH_RETURN_IF_ERROR(RemoveFolder(fs, path));
    if (!absl::EndsWith(name, kReplaced)) continue;
    const std::string target = path.substr(0, path.size() - kReplaced.size());
    // After a crash between the two renames of Finish, only the replaced checkpoint exists.
    LH_RETURN_IF_ERROR(fs.List(target).ok() ? RemoveFolder(fs, path) : fs.Rename(path, target));
  }
  return fs.SyncDir(folder);
}

}  // namespace longhaul
