// What parameters a model has and where each lies: the one description that the coordinator (sizes,
// plans) and the worker (flat buffers, tensors) share. Pure values; no framework.
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

// How rotary positions are stretched; fields as in RopeScalingSpec.
struct RopeScaling {
  enum class Kind { kNone, kLinear, kLlama3 };
  Kind kind = Kind::kNone;
  double factor = 1;
  double low_freq_factor = 1, high_freq_factor = 4;  // kLlama3.
  int64_t original_context = 8192;                   // Likewise.
  friend bool operator==(const RopeScaling&, const RopeScaling&) = default;
};

// Llama-style decoder; fields as in TransformerSpec (proto/longhaul/v1/job.proto), all defaults
// filled in.
struct TransformerShape {
  int64_t layers = 0, dim = 0, heads = 0, kv_heads = 0, ff_dim = 0, context = 0, vocab = 256;
  double rope_theta = 10000, norm_eps = 1e-5;
  bool qk_norm = false, tie_embeddings = false;
  int64_t head_dim = 0;  // 0: dim / heads.
  RopeScaling rope_scaling;
  int64_t positions = 0;  // Said by exported models. 0: context.

  int64_t head_width() const { return head_dim != 0 ? head_dim : dim / heads; }
};

struct TensorLayout {
  std::string name;            // Hugging Face Llama name, as "model.layers.0.mlp.up_proj.weight".
  std::vector<int64_t> shape;  // Row-major.
  int64_t offset = 0;          // In elements of the unit.
  int64_t elements = 0;
  bool decay = false;  // Weight decay applies (matrices, not norms).
};

enum class UnitKind { kEmbedding, kBlock, kHead, kVector };

struct UnitLayout {
  std::string name;  // "embedding", "layer 0", "head", "vector 0".
  UnitKind kind = UnitKind::kVector;
  int64_t layer = -1;  // kBlock: its index.
  int64_t elements = 0;
  std::vector<TensorLayout> tensors;  // Without gaps.
};

struct ModelLayout {
  std::vector<UnitLayout> units;
  int64_t elements() const;
};

// Largest model that is accepted, in parameters.
inline constexpr int64_t kMaxModelElements = int64_t{1} << 42;

// Units: embedding, layers blocks, head (final norm, and the output projection unless it is tied).
// INVALID_ARGUMENT: the shape is impossible; the message begins with the field's name ("heads: 5
// does not divide dim 96").
absl::StatusOr<ModelLayout> LayOutTransformer(const TransformerShape& shape);

// `units` vectors of `elements` each (SyntheticModelSpec).
absl::StatusOr<ModelLayout> LayOutSynthetic(int64_t units, int64_t elements);

}  // namespace longhaul
