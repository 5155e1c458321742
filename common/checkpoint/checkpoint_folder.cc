#include "common/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/config/transformer_spec.h"
#include "common/io/digest.h"

namespace longhaul {
namespace {

constexpr int kFormatVersion = 1;

std::string ManifestPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kManifestFile);
}

absl::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = ManifestPath(folder);
  LH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::optional<v1::CheckpointManifest> manifest = ParseManifest(TextOf(file));
  if (!manifest.has_value())
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a checkpoint's manifest"));
  if (manifest->format_version() != kFormatVersion) {
    return absl::FailedPreconditionError(absl::StrCat(path, ": format ", manifest->format_version(),
                                                      ", this program reads ", kFormatVersion));
  }
  if (!manifest->model().has_transformer()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, manifest->has_model() ? ": is not of a transformer"
                                    : ": does not say the model; the coordinator that wrote it is "
                                      "of an earlier version"));
  }
  return *std::move(manifest);
}

}  // namespace

bool CheckpointFolder::IsOne(const std::string& folder) {
  std::error_code error;
  return std::filesystem::exists(ManifestPath(folder), error);
}

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(
    const std::string& folder) {
  std::unique_ptr<CheckpointFolder> result(new CheckpointFolder);
  LH_ASSIGN_OR_RETURN(result->manifest_, ReadManifest(folder));
  result->shape_ = ShapeOf(result->manifest_.model().transformer());
  absl::StatusOr<ModelLayout> layout = LayOutTransformer(result->shape_);
  if (!layout.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat(ManifestPath(folder), ": model.transformer.", layout.status().message()));
  }
  result->layout_ = *std::move(layout);
  LH_RETURN_IF_ERROR(result->OpenFiles(folder));
  LH_RETURN_IF_ERROR(result->FindTensors(folder));
  return result;
}

absl::Status CheckpointFolder::OpenFiles(const std::string& folder) {
  for (const v1::CheckpointFragment& fragment : manifest_.fragments()) {
    if (fragment.file().empty() || absl::StrContains(fragment.file(), '/') ||
        fragment.file()[0] == '.' || absl::StrContains(fragment.file(), '\0')) {
      return absl::InvalidArgumentError(
          absl::StrCat(ManifestPath(folder), ": names a file elsewhere"));
    }
    const std::string path = absl::StrCat(folder, "/", fragment.file());
    LH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    const size_t bytes = file.bytes().size();
    if (fragment.elements() < 0 || bytes / 4 != static_cast<uint64_t>(fragment.elements()) ||
        bytes % 4 != 0) {
      return absl::DataLossError(absl::StrCat(path, ": has ", bytes,
                                              " bytes instead of four for each of ",
                                              fragment.elements(), " elements"));
    }
    if (DigestOf(TextOf(file)) != DigestOf(fragment))
      return absl::DataLossError(absl::StrCat(path, ": is damaged: its digest differs"));
    files_.push_back(std::move(file));
  }
  return absl::OkStatus();
}

absl::Status CheckpointFolder::FindTensors(const std::string& folder) {
  absl::flat_hash_map<std::string, const v1::CheckpointTensor*> tensors;
  for (const v1::CheckpointTensor& tensor : manifest_.tensors()) tensors[tensor.name()] = &tensor;
  for (const UnitLayout& unit : layout_.units) {
    std::vector<Place>& places = places_.emplace_back();
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
      if (tensor.fragment() < 0 || tensor.fragment() >= static_cast<int>(files_.size()))
        return refuse("lies in a fragment that is not there");
      const auto elements = static_cast<int64_t>(files_[tensor.fragment()].bytes().size() / 4);
      if (tensor.offset() < 0 || tensor.offset() > elements ||
          wanted.elements > elements - tensor.offset()) {
        return refuse("lies outside its fragment");
      }
      const auto* const values =
          reinterpret_cast<const float*>(files_[tensor.fragment()].bytes().data());
      places.push_back({wanted.offset, wanted.elements, values + tensor.offset()});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointFolder::Read(int unit, int64_t offset, absl::Span<float> out) const {
  const int64_t end = offset + static_cast<int64_t>(out.size());
  for (const Place& place : places_[unit]) {
    const int64_t from = std::max(offset, place.offset),
                  to = std::min(end, place.offset + place.elements);
    if (from < to)
      std::memcpy(out.data() + (from - offset), place.values + (from - place.offset),
                  4 * (to - from));
  }
  return absl::OkStatus();
}

}  // namespace longhaul
