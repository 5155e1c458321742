// Initial parameters: a pure function of (seed, unit, tensor, index). So any rank can compute any
// part of them, on any number of threads. Thread-safe; computes on all threads of at::parallel_for.
#pragma once

#include <cstdint>

#include "absl/types/span.h"
#include "common/layout/initial_parameters.h"
#include "worker/model/model.h"

namespace longhaul {

// Writes the initial values of elements [first, first + out.size()) of a unit.
void InitializeParameters(const Model& model, uint64_t seed, int unit, int64_t first,
                          absl::Span<float> out);

// The same as InitialParameters. The model outlives the object.
class SeedParameters : public InitialParameters {
 public:
  SeedParameters(const Model& model, uint64_t seed) : model_(model), seed_(seed) {}
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) const override {
    InitializeParameters(model_, seed_, unit, offset, out);
    return absl::OkStatus();
  }

 private:
  const Model& model_;
  const uint64_t seed_;
};

}  // namespace longhaul
