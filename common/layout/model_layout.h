// Which parameters a model has, and where each lies. The coordinator (sizes, plans) and the worker
// (flat buffers, tensors) share this description. Pure values; no framework.
//
// A model is a list of units: the smallest pieces that are gathered, sharded and synchronised
// together (one transformer block; the token embedding; the output head). A unit's parameters lie
// one after another in one flat fp32 buffer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace longhaul {

// How rotary positions are stretched. Fields as in RopeScalingSpec.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3 };
  Kind kind = Kind::kNone;
  double factor = 1;
  // Used by kLlama3.
  double low_freq_factor = 1, high_freq_factor = 4;
  // Used by kLlama3.
  int64_t original_context = 8192;
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// Llama-style decoder. Fields as in TransformerSpec (proto/longhaul/v1/job.proto), with all
// defaults filled in.
struct TransformerShape {
  int64_t layers = 0, dim = 0, heads = 0, kv_heads = 0, ff_dim = 0, context = 0, vocab = 256;
  double rope_theta = 10000, norm_eps = 1e-5;
  bool qk_norm = false, tie_embeddings = false;
  // 0: dim / heads.
  int64_t head_dim = 0;
  RopeScaling rope_scaling;
  // The number of positions in exported models. 0: context.
  int64_t positions = 0;

  int64_t head_width() const { return head_dim != 0 ? head_dim : dim / heads; }
};

struct TensorLayout {
  // Its name in Hugging Face's Llama, for example "model.layers.0.mlp.up_proj.weight".
  std::string name;
  // Row-major.
  std::vector<int64_t> shape;
  // In elements of the unit.
  int64_t offset = 0;
  int64_t elements = 0;
  // Weight decay applies (to matrices, not to norms).
  bool decay = false;
  // A hidden matrix: an optimizer that works on whole matrices (Muon) updates it as one. Matrices
  // inside a layer are; embeddings and output projections are not.
  bool matrix = false;
};

enum class UnitKind { kEmbedding, kBlock, kHead, kVector };

struct UnitLayout {
  // "embedding", "layer 0", "head", "vector 0".
  std::string name;
  UnitKind kind = UnitKind::kVector;
  // The index of a layer: a unit that the rules for fragments share out. -1: the unit is not one.
  int64_t layer = -1;
  int64_t elements = 0;
  // Without gaps.
  std::vector<TensorLayout> tensors;
};

struct ModelLayout {
  std::vector<UnitLayout> units;
  int64_t elements() const;
};

// The largest model that is accepted, in parameters.
inline constexpr int64_t kMaxModelElements = int64_t{1} << 42;

// Units: the embedding, `layers` blocks, the head (final norm, and the output projection unless it
// is tied). INVALID_ARGUMENT: the shape is impossible; the message begins with the field's name
// ("heads: 5 does not divide dim 96").
absl::StatusOr<ModelLayout> LayOutTransformer(const TransformerShape& shape);

// `units` vectors of `elements` each (SyntheticModelSpec).
absl::StatusOr<ModelLayout> LayOutSynthetic(int64_t units, int64_t elements);

}  // namespace longhaul
