// Reads a checkpoint's folder (coordinator/store/FORMAT.md) without a coordinator: the outer
// parameters of a job, and the model to which they belong. A file that is changed, cut off or fails
// meanwhile is an error of the call that reads it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/read_only_file.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

class CheckpointFolder : public InitialParameters {
 public:
  // Reads the manifest and verifies the digest of every file, which reads all of it. NOT_FOUND: no
  // such folder or file. FAILED_PRECONDITION: a checkpoint of the synthetic model, or one of
  // another version, as of an older one that did not store the model. DATA_LOSS: damaged.
  // INVALID_ARGUMENT: the model is impossible, or the tensors are not its.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& folder);
  // Whether the folder has a manifest.json.
  static bool IsOne(const std::string& folder);
  // The folder with the tokenizer of the model that its job began with: in this one, as a download
  // writes it, or in that of the job. Empty: there is none.
  static std::string TokenizerOf(const std::string& folder);

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  // Of a transformer.
  const TransformerShape& shape() const { return shape_; }
  const ModelLayout& layout() const { return layout_; }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override;

 private:
  struct Source {
    // Within the unit.
    int64_t offset = 0, elements = 0;
    // Which file, and where in it, in bytes.
    int file = 0;
    int64_t begin = 0;
  };
  CheckpointFolder() = default;
  absl::Status OpenFiles(const std::string& folder);
  absl::Status VerifyFiles() const;
  absl::Status FindTensors(const std::string& folder);

  v1::CheckpointManifest manifest_;
  TransformerShape shape_;
  ModelLayout layout_;
  // By fragment.
  std::vector<ReadOnlyFile> files_;
  // By unit, in the order of its tensors.
  std::vector<std::vector<Source>> sources_;
};

}  // namespace longhaul
