// A checkpoint's folder (coordinator/store/FORMAT.md), read without a coordinator: the outer parameters
// of a job, with the model that they are of. Files are mapped.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/io/mapped_file.h"
#include "common/layout/initial_parameters.h"
#include "common/layout/model_layout.h"
#include "longhaul/v1/checkpoint.pb.h"

namespace longhaul {

class CheckpointFolder : public InitialParameters {
 public:
  // Reads the manifest and verifies every file's digest, which reads all of it. NOT_FOUND: no such
  // folder or file. FAILED_PRECONDITION: no transformer's checkpoint, or of a program that did not say
  // the model. DATA_LOSS: damaged. INVALID_ARGUMENT: the manifest is not one, or contradicts itself.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& folder);
  // Whether it has a manifest.json.
  static bool IsOne(const std::string& folder);

  const v1::CheckpointManifest& manifest() const { return manifest_; }
  const TransformerShape& shape() const { return shape_; }
  const ModelLayout& layout() const { return layout_; }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override;

 private:
  struct Place {
    int64_t offset = 0, elements = 0;  // In the unit.
    const float* values = nullptr;
  };
  CheckpointFolder() = default;
  absl::Status OpenFiles(const std::string& folder);
  absl::Status FindTensors(const std::string& folder);

  v1::CheckpointManifest manifest_;
  TransformerShape shape_;
  ModelLayout layout_;
  std::vector<MappedFile> files_;           // By fragment.
  std::vector<std::vector<Place>> places_;  // By unit, in the order of their offsets.
};

}  // namespace longhaul
