#include "common/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/finite.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/folder_files.h"
#include "common/checkpoint/manifest.h"
#include "common/config/model_kinds.h"
#include "common/config/transformer_spec.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

// More threads do not make a disk faster.
constexpr size_t kThreadsMax = 8;

std::string ManifestPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kManifestFile);
}

absl::StatusOr<v1::CheckpointManifest> ManifestOfModel(const std::string& folder) {
  const std::string path = ManifestPath(folder);
  LH_ASSIGN_OR_RETURN(const std::string text, ReadRegularFile(path, kManifestBytesMax));
  LH_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ManifestFromJson(text, path));
  if (Trains(manifest.model())) return manifest;
  return absl::FailedPreconditionError(absl::StrCat(
      path, manifest.has_model()
                ? ": is the synthetic model, which computes nothing"
                : ": does not name the model: an earlier version of the coordinator wrote it"));
}

}  // namespace

bool CheckpointFolder::IsOne(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(ManifestPath(folder), error);
}

std::string CheckpointFolder::TokenizerOf(const std::string& folder) {
  std::error_code error;
  const std::filesystem::path path =
      std::filesystem::absolute(WithoutTrailingSlashes(folder), error).lexically_normal();
  for (const std::filesystem::path& found :
       {path / "tokenizer", path.parent_path().parent_path() / "tokenizer"}) {
    if (std::filesystem::is_regular_file(found / kTokenizerListFile, error)) return found.string();
  }
  return "";
}

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(
    const std::string& folder) {
  std::unique_ptr<CheckpointFolder> result(new CheckpointFolder);
  LH_ASSIGN_OR_RETURN(result->manifest_, ManifestOfModel(folder));
  const v1::ModelSpec& model = result->manifest_.model();
  if (model.has_transformer()) result->shape_ = ShapeOf(model.transformer());
  const ModelKind& kind = *ModelKindOf(model);
  absl::StatusOr<ModelLayout> layout = kind.lay_out(model);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ManifestPath(folder), ": ", kind.field, ".", layout.status().message()));
  }
  result->layout_ = *std::move(layout);
  LH_RETURN_IF_ERROR(result->OpenFiles(folder));
  LH_RETURN_IF_ERROR(result->FindTensors(folder));
  return result;
}

absl::Status CheckpointFolder::OpenFiles(const std::string& folder) {
  for (const v1::CheckpointFragment& fragment : manifest_.fragments()) {
    const std::string path = absl::StrCat(folder, "/", fragment.file());
    LH_ASSIGN_OR_RETURN(ReadOnlyFile file, ReadOnlyFile::Open(path));
    LH_RETURN_IF_ERROR(CheckFileBytes(fragment, file.size(), path));
    files_.push_back(std::move(file));
  }
  return VerifyFiles();
}

// Reading is most of the work of an export, so every core reads files.
absl::Status CheckpointFolder::VerifyFiles() const {
  const size_t count = files_.size();
  std::vector<absl::Status> found(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      const v1::CheckpointFragment& fragment = manifest_.fragments(static_cast<int>(i));
      const absl::StatusOr<Digest128> digest = DigestOfFile(files_[i]);
      found[i] =
          digest.ok() ? CheckFileDigest(fragment, *digest, files_[i].path()) : digest.status();
    }
  };
  const size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kThreadsMax);
  std::vector<std::jthread> others;
  for (size_t i = 1; i < std::min(count, threads); ++i) others.emplace_back(work);
  work();
  others.clear();
  for (const absl::Status& status : found) LH_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::Status CheckpointFolder::FindTensors(const std::string& folder) {
  absl::flat_hash_map<std::string, const v1::CheckpointTensor*> tensors;
  for (const v1::CheckpointTensor& tensor : manifest_.tensors()) tensors[tensor.name()] = &tensor;
  for (const UnitLayout& unit : layout_.units) {
    std::vector<Source>& sources = sources_.emplace_back();
    for (const TensorLayout& wanted : unit.tensors) {
      const auto found = tensors.find(wanted.name);
      const auto refuse = [&](absl::string_view what) {
        return absl::InvalidArgumentError(
            absl::StrCat(ManifestPath(folder), ": ", wanted.name, " ", what));
      };
      if (found == tensors.end()) return refuse("is missing");
      const v1::CheckpointTensor& tensor = *found->second;
      if (!std::equal(tensor.shape().begin(), tensor.shape().end(), wanted.shape.begin(),
                      wanted.shape.end())) {
        return refuse("has a shape that is not the model's");
      }
      // The source is within the file. CheckManifest compared it with the fragment, whose size the
      // file has.
      sources.push_back({wanted.offset, wanted.elements, tensor.fragment(), 4 * tensor.offset()});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointFolder::Read(int unit, int64_t offset, absl::Span<float> out) const {
  const int64_t end = offset + static_cast<int64_t>(out.size());
  for (size_t i = 0; i < sources_[unit].size(); ++i) {
    const Source& source = sources_[unit][i];
    const int64_t from = std::max(offset, source.offset),
                  to = std::min(end, source.offset + source.elements);
    if (from >= to) continue;
    const absl::Span<float> values = out.subspan(from - offset, to - from);
    LH_RETURN_IF_ERROR(
        files_[source.file].Read(source.begin + 4 * (from - source.offset),
                                 {reinterpret_cast<uint8_t*>(values.data()), 4 * values.size()}));
    if (!AllFinite(values)) {
      return absl::DataLossError(absl::StrCat(files_[source.file].path(), ": ",
                                              layout_.units[unit].tensors[i].name,
                                              " has values that are not finite"));
    }
  }
  return absl::OkStatus();
}

}  // namespace longhaul
