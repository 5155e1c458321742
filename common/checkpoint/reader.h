// Reads the tensors of a checkpoint's folder, to begin another job with them. Each file is verified,
// whole, before anything of it is given out.
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

// A checkpoint's manifest, from its folder. NOT_FOUND: there is no folder, or no manifest in it.
// DATA_LOSS: it is damaged.
absl::StatusOr<v1::CheckpointManifest> ReadManifest(FileSystem& fs, const std::string& folder);

// What keeps the tensors of a checkpoint from being those of a model (names and shapes): the first
// few differences, in words. Empty: nothing does. `wanted`: each with name and shape.
std::string TensorDifferences(const v1::CheckpointManifest& manifest,
                              absl::Span<const v1::CheckpointTensor> wanted);

// Whether a file is what the manifest says. Reads it. DATA_LOSS names it.
absl::Status VerifyFile(FileSystem& fs, const std::string& folder,
                        const v1::CheckpointFragment& fragment);

// Externally synchronised.
class CheckpointReader {
 public:
  // `fs` outlives it. Errors: those of ReadManifest.
  static absl::StatusOr<CheckpointReader> Open(FileSystem* fs, const std::string& folder);

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // A fragment of `elements` that has these tensors, each with name, shape and offset in it, and
  // zeros between them. Blocks on the disk. NOT_FOUND: the checkpoint has no such tensor, or it has
  // another shape. INVALID_ARGUMENT: one lies outside of the fragment. DATA_LOSS: a file is damaged.
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
