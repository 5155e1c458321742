#include "common/checkpoint/reader.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/finite.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/manifest.h"
#include "common/io/digest.h"
#include "common/io/file_util.h"

namespace longhaul {
namespace {

constexpr int64_t kReadBytes = 1 << 20;
constexpr size_t kDifferencesMax = 3;

using TensorsByName = std::unordered_map<std::string, const v1::CheckpointTensor*>;

TensorsByName ByName(const v1::CheckpointManifest& manifest) {
  TensorsByName tensors;
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) tensors[tensor.name()] = &tensor;
  return tensors;
}

bool SameShape(const v1::CheckpointTensor& a, const v1::CheckpointTensor& b) {
  return std::equal(a.shape().begin(), a.shape().end(), b.shape().begin(), b.shape().end());
}

std::string ShapeText(const v1::CheckpointTensor& tensor) {
  return absl::StrCat("[", absl::StrJoin(tensor.shape(), ", "), "]");
}

// The shape was checked before.
int64_t ElementsIn(const v1::CheckpointTensor& tensor) {
  int64_t elements = 1;
  for (const int64_t extent : tensor.shape()) elements *= extent;
  return elements;
}

}  // namespace

absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& fs, const std::string& folder) {
  const std::string path = JoinPath(folder, kManifestFile);
  LH_ASSIGN_OR_RETURN(const std::string json, ReadFile(fs, path, kManifestBytesMax));
  LH_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ManifestFromJson(json, path));
  // The folder may have been moved.
  manifest.set_path(folder);
  return manifest;
}

std::string TensorDifferences(const v1::CheckpointManifest& manifest,
                              absl::Span<const v1::CheckpointTensor> wanted) {
  std::vector<std::string> differences;
  size_t count = 0;
  const auto differs = [&](std::string what) {
    if (++count <= kDifferencesMax) differences.push_back(std::move(what));
  };
  TensorsByName here = ByName(manifest);
  for (const v1::CheckpointTensor& tensor : wanted) {
    const auto found = here.find(tensor.name());
    if (found == here.end()) {
      differs(absl::StrCat("it has no ", tensor.name()));
      continue;
    }
    if (!SameShape(*found->second, tensor)) {
      differs(absl::StrCat(tensor.name(), " is ", ShapeText(*found->second), " instead of ",
                           ShapeText(tensor)));
    }
    here.erase(found);
  }
  for (const v1::CheckpointTensor& tensor : manifest.tensors()) {
    if (here.contains(tensor.name())) differs(absl::StrCat("the model has no ", tensor.name()));
  }
  std::string words = absl::StrJoin(differences, "; ");
  if (count > kDifferencesMax) absl::StrAppend(&words, "; and ", count - kDifferencesMax, " more");
  return words;
}

absl::Status CheckFileSizes(FileSystem& fs, const std::string& folder,
                            const v1::CheckpointManifest& manifest) {
  for (const v1::CheckpointFragment& fragment : manifest.fragments()) {
    const std::string path = JoinPath(folder, fragment.file());
    LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path));
    LH_ASSIGN_OR_RETURN(const int64_t size, file->Size());
    LH_RETURN_IF_ERROR(CheckFileBytes(fragment, size, path));
  }
  return absl::OkStatus();
}

absl::Status VerifyFile(FileSystem& fs, const std::string& folder,
                        const v1::CheckpointFragment& fragment) {
  const std::string path = JoinPath(folder, fragment.file());
  LH_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, fs.Open(path));
  LH_ASSIGN_OR_RETURN(const int64_t size, file->Size());
  LH_RETURN_IF_ERROR(CheckFileBytes(fragment, size, path));
  Digester digester;
  std::string buffer;
  for (int64_t at = 0; at < size; at += static_cast<int64_t>(buffer.size())) {
    buffer.resize(std::min(kReadBytes, size - at));
    LH_RETURN_IF_ERROR(file->ReadExactly(at, absl::MakeSpan(buffer)));
    digester.Update(buffer);
  }
  return CheckFileDigest(fragment, digester.Value(), path);
}

CheckpointReader::CheckpointReader(FileSystem* fs, std::string folder,
                                   v1::CheckpointManifest manifest)
    : fs_(fs),
      folder_(std::move(folder)),
      manifest_(std::move(manifest)),
      verified_(manifest_.fragments_size()) {}

absl::StatusOr<CheckpointReader> CheckpointReader::Open(FileSystem* fs, const std::string& folder) {
  LH_ASSIGN_OR_RETURN(v1::CheckpointManifest manifest, ReadManifest(*fs, folder));
  return CheckpointReader(fs, folder, std::move(manifest));
}

absl::Status CheckpointReader::Verify(int fragment) {
  if (verified_[fragment]) return absl::OkStatus();
  LH_RETURN_IF_ERROR(VerifyFile(*fs_, folder_, manifest_.fragments(fragment)));
  verified_[fragment] = true;
  return absl::OkStatus();
}

absl::StatusOr<FloatArray> CheckpointReader::Read(int64_t elements,
                                                  absl::Span<const v1::CheckpointTensor> tensors) {
  FloatArray values(elements);
  const TensorsByName here = ByName(manifest_);
  std::unordered_map<int, std::unique_ptr<File>> files;
  for (const v1::CheckpointTensor& tensor : tensors) {
    const auto found = here.find(tensor.name());
    if (found == here.end() || !SameShape(*found->second, tensor)) {
      return absl::NotFoundError(absl::StrCat("checkpoint ", folder_, " has no tensor ",
                                              tensor.name(), " of shape ", ShapeText(tensor)));
    }
    const v1::CheckpointTensor& source = *found->second;
    const int64_t count = ElementsIn(source);
    if (tensor.offset() < 0 || count > elements || tensor.offset() > elements - count) {
      return absl::InvalidArgumentError(
          absl::StrCat(tensor.name(), " lies outside of its fragment"));
    }
    LH_RETURN_IF_ERROR(Verify(source.fragment()));
    std::unique_ptr<File>& file = files[source.fragment()];
    if (file == nullptr) {
      const std::string& name = manifest_.fragments(source.fragment()).file();
      LH_ASSIGN_OR_RETURN(file, fs_->Open(JoinPath(folder_, name)));
    }
    const absl::Span<float> wanted(values.data() + tensor.offset(), count);
    LH_RETURN_IF_ERROR(file->ReadExactly(
        source.offset() * static_cast<int64_t>(sizeof(float)),
        absl::MakeSpan(reinterpret_cast<char*>(wanted.data()), count * sizeof(float))));
    if (!AllFinite(wanted)) {
      return absl::DataLossError(
          absl::StrCat(JoinPath(folder_, manifest_.fragments(source.fragment()).file()), ": ",
                       tensor.name(), " has values that are not finite"));
    }
  }
  return values;
}

}  // namespace longhaul
