#include "coordinator/store/checkpoint.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/io/file_util.h"
#include "common/wire/proto_values.h"
#include "coordinator/store/job_folder.h"
#include "coordinator/store/paced_write.h"
#include "google/protobuf/util/json_util.h"

namespace longhaul {
namespace {

constexpr int kFormatVersion = 1;
constexpr int64_t kManifestBytesMax = 64 << 20;
constexpr absl::string_view kPrefix = "step-", kTemporary = ".tmp", kReplaced = ".old";

bool IsCheckpoint(absl::string_view name) {
  return absl::StartsWith(name, kPrefix) && !absl::EndsWith(name, kTemporary) &&
         !absl::EndsWith(name, kReplaced);
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& fs, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(const std::string json,
                      ReadFile(fs, JoinPath(folder, "manifest.json"), kManifestBytesMax));
  v1::CheckpointManifest manifest;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;  // of a later program
  if (!google::protobuf::util::JsonStringToMessage(json, &manifest, options).ok()) {
    return absl::DataLossError(absl::StrCat(folder, "/manifest.json is not a manifest"));
  }
  manifest.set_path(folder);  // the data folder may have moved
  return manifest;
}

absl::Status WriteNewFile(FileSystem& fs, const std::string& path, absl::string_view bytes) {
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Create(path));
  return WritePaced(*file, 0, bytes);
}

// By step: numbers beyond the zeros are longer.
void SortByStep(std::vector<std::string>& names) {
  std::sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return a.size() != b.size() ? a.size() < b.size() : a < b;
  });
}

absl::StatusOr<std::vector<std::string>> ListNames(FileSystem& fs, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(std::vector<std::string> names, fs.List(folder));
  std::erase_if(names, [](const std::string& name) { return !IsCheckpoint(name); });
  SortByStep(names);
  return names;
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

namespace {

absl::Status CheckFile(FileSystem& fs, const std::string& path,
                       const v1::CheckpointFragment& fragment) {
  constexpr int64_t kReadBytes = 1 << 20;
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path));
  LH_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  if (fragment.elements() < 0 || size / 4 != fragment.elements() || size % 4 != 0) {
    return absl::DataLossError(absl::StrCat(path, " has ", size,
                                            " bytes instead of four for each of ",
                                            fragment.elements(), " elements"));
  }
  Digester digester;
  std::string buffer;
  for (int64_t at = 0; at < size; at += buffer.size()) {
    buffer.resize(std::min(kReadBytes, size - at));
    LH_RETURN_IF_ERROR(file->ReadExactly(at, absl::MakeSpan(buffer)));
    digester.Update(buffer);
  }
  if (digester.Value() == DigestFromProto(fragment.digest())) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, " is damaged: its digest differs (at byte 0)"));
}

}  // namespace

std::vector<absl::Status> CheckCheckpoint(FileSystem& fs, const std::string& folder) {
  std::vector<absl::Status> faults;
  const absl::StatusOr<v1::CheckpointManifest> manifest = ReadManifest(fs, folder);
  if (!manifest.ok()) return {manifest.status()};
  if (manifest->fragments().empty()) {
    faults.push_back(absl::DataLossError(absl::StrCat(folder, "/manifest.json has no fragments")));
  }
  for (const v1::CheckpointFragment& fragment : manifest->fragments()) {
    if (absl::StrContains(fragment.file(), '/')) {
      faults.push_back(absl::DataLossError(
          absl::StrCat(folder, "/manifest.json names a file elsewhere: ", fragment.file())));
      continue;
    }
    absl::Status checked = CheckFile(fs, JoinPath(folder, fragment.file()), fragment);
    if (!checked.ok()) faults.push_back(std::move(checked));
  }
  return faults;
}

CheckpointWriter::CheckpointWriter(FileSystem* fs, std::string job_dir,
                                   v1::CheckpointManifest manifest)
    : fs_(fs),
      folder_(CheckpointFolder(job_dir)),
      name_(absl::StrFormat("%s%08d", kPrefix, manifest.step())),
      temporary_(JoinPath(folder_, absl::StrCat(name_, kTemporary))),
      manifest_(std::move(manifest)) {
  manifest_.set_format_version(kFormatVersion);
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

absl::StatusOr<v1::CheckpointManifest> CheckpointWriter::Finish(int keep) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  if (!google::protobuf::util::MessageToJsonString(manifest_, &json, options).ok()) {
    return absl::InvalidArgumentError("the manifest has no JSON form");
  }
  LH_RETURN_IF_ERROR(WriteNewFile(*fs_, JoinPath(temporary_, "manifest.json"), json));
  LH_RETURN_IF_ERROR(fs_->SyncDir(temporary_));
  LH_ASSIGN_OR_RETURN(std::vector<std::string> names, ListNames(*fs_, folder_));
  const std::string target = JoinPath(folder_, name_), replaced = absl::StrCat(target, kReplaced);
  const bool replaces = std::find(names.begin(), names.end(), name_) != names.end();
  if (replaces) {
    LH_RETURN_IF_ERROR(fs_->Rename(target, replaced));
  } else {
    names.push_back(name_);
    SortByStep(names);
  }
  LH_RETURN_IF_ERROR(fs_->Rename(temporary_, target));
  LH_RETURN_IF_ERROR(fs_->SyncDir(folder_));
  if (replaces) LH_RETURN_IF_ERROR(RemoveFolder(*fs_, replaced));
  for (int i = 0; i + keep < static_cast<int>(names.size()); ++i) {
    LH_RETURN_IF_ERROR(RemoveFolder(*fs_, JoinPath(folder_, names[i])));
  }
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
    // Between the two renames of Finish there is no checkpoint of that name.
    LH_RETURN_IF_ERROR(fs.List(target).ok() ? RemoveFolder(fs, path) : fs.Rename(path, target));
  }
  return fs.SyncDir(folder);
}

}  // namespace longhaul
