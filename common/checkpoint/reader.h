// Reads the tensors of a checkpoint's folder, so that another job can begin with them. Each file is
// verified as a whole before any of its values are returned.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "common/blocks/float_array.h"
#include "common/io/filesystem.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

// Reads a checkpoint's manifest from its folder. NOT_FOUND: there is no folder, or no manifest in
// it. Other errors: those of ManifestFromJson.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& fs, const std::string& folder);

// Compares the names and shapes of a checkpoint's tensors with `wanted`, those of a model. Returns
// the first few differences as a text, or an empty one.
std::string TensorDifferences(const v1::CheckpointManifest& manifest,
                              absl::Span<const v1::CheckpointTensor> wanted);

// Compares the sizes of all files with the manifest, and reads none. NOT_FOUND, DATA_LOSS: they
// name the first file that is missing or has another size.
absl::Status CheckFileSizes(FileSystem& fs, const std::string& folder,
                            const v1::CheckpointManifest& manifest);

// Compares a file with the manifest. Reads it. DATA_LOSS names the file.
absl::Status VerifyFile(FileSystem& fs, const std::string& folder,
                        const v1::CheckpointFragment& fragment);

// Externally synchronised.
class CheckpointReader {
 public:
  // `fs` outlives it. Errors: those of ReadManifest.
  static absl::StatusOr<CheckpointReader> Open(FileSystem* fs, const std::string& folder);

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // Makes a fragment of `elements` from these tensors, each with name, shape and offset in the
  // fragment. Elements between them are zero. Blocks on the disk. NOT_FOUND: the checkpoint has no
  // such tensor, or it has another shape. INVALID_ARGUMENT: a tensor lies outside the fragment.
  // DATA_LOSS: a file is damaged, or has a value that is not finite.
  absl::StatusOr<FloatArray> Read(int64_t elements, absl::Span<const v1::CheckpointTensor> tensors);

 private:
  CheckpointReader(FileSystem* fs, std::string folder, v1::CheckpointManifest manifest);
  absl::Status Verify(int fragment);

  FileSystem* fs_;
  std::string folder_;
  v1::CheckpointManifest manifest_;
  // By fragment.
  std::vector<bool> verified_;
};

}  // namespace longhaul
