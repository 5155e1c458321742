#include "common/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <thread>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/config/transformer_spec.h"
#include "common/io/digest.h"

namespace longhaul {
namespace {

// More threads do not make a disk faster.
constexpr size_t kThreadsMax = 8;
constexpr size_t kDigestedBytes = 1 << 20;

std::string ManifestPath(const std::string& folder) {
  return absl::StrCat(folder, "/", kManifestFile);
}

absl::string_view TextOf(const MappedFile& file) {
  return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

// Of a file that may be larger than the memory.
Digest128 DigestOfFile(const MappedFile& file) {
  Digester digester;
  for (size_t at = 0; at < file.bytes().size(); at += kDigestedBytes) {
    const absl::Span<const uint8_t> part = file.bytes().subspan(at, kDigestedBytes);
    digester.Update(absl::string_view(reinterpret_cast<const char*>(part.data()), part.size()));
    file.Release(part);
  }
  return digester.Value();
}

absl::StatusOr<v1::CheckpointManifest> ReadManifest(const std::string& folder) {
  const std::string path = ManifestPath(folder);
  LH_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  std::optional<v1::CheckpointManifest> manifest = ParseManifest(TextOf(file));
  if (!manifest.has_value())
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a checkpoint's manifest"));
  if (const absl::Status sound = CheckManifest(*manifest); !sound.ok()) {
    const std::string message = absl::StrCat(path, " ", sound.message());
    return absl::IsFailedPrecondition(sound) ? absl::FailedPreconditionError(message)
                                             : absl::InvalidArgumentError(message);
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
    const std::string path = absl::StrCat(folder, "/", fragment.file());
    LH_ASSIGN_OR_RETURN(MappedFile file, MappedFile::Open(path));
    LH_RETURN_IF_ERROR(CheckFileBytes(fragment, static_cast<int64_t>(file.bytes().size()), path));
    files_.push_back(std::move(file));
  }
  return VerifyFiles(folder);
}

// Reading is most of the work of an export, so every core reads files.
absl::Status CheckpointFolder::VerifyFiles(const std::string& folder) const {
  const size_t count = files_.size();
  std::vector<absl::Status> found(count);
  std::atomic<size_t> next = 0;
  const auto work = [&] {
    for (size_t i = next++; i < count; i = next++) {
      const v1::CheckpointFragment& fragment = manifest_.fragments(static_cast<int>(i));
      found[i] = CheckFileDigest(fragment, DigestOfFile(files_[i]),
                                 absl::StrCat(folder, "/", fragment.file()));
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
      // The place is within the file. CheckManifest compared it with the fragment, whose size the
      // file has.
      const MappedFile& file = files_[tensor.fragment()];
      places.push_back({wanted.offset, wanted.elements, &file,
                        file.bytes().subspan(4 * tensor.offset(), 4 * wanted.elements)});
    }
  }
  return absl::OkStatus();
}

absl::Status CheckpointFolder::Read(int unit, int64_t offset, absl::Span<float> out) const {
  const int64_t end = offset + static_cast<int64_t>(out.size());
  for (const Place& place : places_[unit]) {
    const int64_t from = std::max(offset, place.offset),
                  to = std::min(end, place.offset + place.elements);
    if (from >= to) continue;
    const absl::Span<const uint8_t> bytes =
        place.bytes.subspan(4 * (from - place.offset), 4 * (to - from));
    std::memcpy(out.data() + (from - offset), bytes.data(), bytes.size());
    place.file->Release(bytes);
  }
  return absl::OkStatus();
}

}  // namespace longhaul
