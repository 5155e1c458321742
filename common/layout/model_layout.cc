#include "common/layout/model_layout.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status_macros.h"
#include "common/layout/unit_tensors.h"

namespace longhaul {
namespace {

// The conditions are written so that NaN fails.
absl::Status ValidateScaling(const RopeScaling& scaling) {
  // With a smaller one, the angles of far positions are not numbers in float32.
  constexpr double kFactorMin = 1e-6, kFactorMax = 1e6;
  const auto refuse = [](const char* field, const char* expected) {
    return absl::InvalidArgumentError(
        absl::StrFormat("rope_scaling.%s: expected a number %s", field, expected));
  };
  switch (scaling.kind) {
    case RopeScaling::Kind::kNone:
      return absl::OkStatus();
    case RopeScaling::Kind::kLinear:
      if (scaling.factor >= kFactorMin && scaling.factor <= kFactorMax) return absl::OkStatus();
      return refuse("linear", "from 1e-6 to 1e6");
    case RopeScaling::Kind::kLlama3:
      if (!(scaling.factor >= 1 && scaling.factor <= kFactorMax))
        return refuse("llama3.factor", "from 1 to 1e6");
      if (!(scaling.low_freq_factor > 0)) return refuse("llama3.low_freq_factor", "above 0");
      if (!(scaling.high_freq_factor > scaling.low_freq_factor &&
            scaling.high_freq_factor <= kFactorMax))
        return refuse("llama3.high_freq_factor", "above low_freq_factor, at most 1e6");
      return RequireRange("rope_scaling.llama3.original_context", scaling.original_context, 2,
                          1 << 20);
  }
  return absl::OkStatus();
}

absl::Status Validate(const TransformerShape& s) {
  LH_RETURN_IF_ERROR(RequireRange("layers", s.layers, 1, 1024));
  LH_RETURN_IF_ERROR(RequireRange("dim", s.dim, 2, 1 << 20));
  LH_RETURN_IF_ERROR(RequireRange("heads", s.heads, 1, s.head_dim != 0 ? 1 << 14 : s.dim));
  LH_RETURN_IF_ERROR(RequireRange("kv_heads", s.kv_heads, 1, s.heads));
  LH_RETURN_IF_ERROR(RequireRange("ff_dim", s.ff_dim, 1, 1 << 22));
  LH_RETURN_IF_ERROR(RequireRange("context", s.context, 2, 1 << 20));
  LH_RETURN_IF_ERROR(RequireRange("vocab", s.vocab, 2, 1 << 22));
  if (s.head_dim != 0) {
    LH_RETURN_IF_ERROR(RequireRange("head_dim", s.head_dim, 2, 1 << 14));
    if (s.head_dim % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrFormat(
          "head_dim: found %d; rotary positions need an even head width", s.head_dim));
    }
  } else if (s.dim % (2 * s.heads) != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("heads: dim %d is not a multiple of 2 * heads (%d); rotary positions need "
                        "an even head width",
                        s.dim, 2 * s.heads));
  }
  if (s.heads % s.kv_heads != 0) {
    return absl::InvalidArgumentError(
        absl::StrFormat("kv_heads: %d does not divide heads %d", s.kv_heads, s.heads));
  }
  if (!(s.rope_theta > 1)) return absl::InvalidArgumentError("rope_theta: must be above 1");
  // A smaller one is denormal or zero in float32. With zero, a row of zeros would become NaN.
  if (!(s.norm_eps >= std::numeric_limits<float>::min() && s.norm_eps < 1))
    return absl::InvalidArgumentError("norm_eps: must be at least 1.2e-38 and below 1");
  if (s.positions != 0) LH_RETURN_IF_ERROR(RequireRange("positions", s.positions, 2, 1 << 30));
  return ValidateScaling(s.rope_scaling);
}

UnitLayout LayOutBlock(const TransformerShape& s, int64_t layer) {
  UnitLayout unit{.name = absl::StrCat("layer ", layer), .kind = UnitKind::kBlock, .layer = layer};
  const std::string prefix = absl::StrCat("model.layers.", layer, ".");
  const int64_t head_dim = s.head_width();
  // q, k, v are neighbours, and so are gate and up: fused blocks take each group as one matrix.
  AddTensor(unit, prefix + "self_attn.q_proj.weight", {s.heads * head_dim, s.dim});
  AddTensor(unit, prefix + "self_attn.k_proj.weight", {s.kv_heads * head_dim, s.dim});
  AddTensor(unit, prefix + "self_attn.v_proj.weight", {s.kv_heads * head_dim, s.dim});
  AddTensor(unit, prefix + "self_attn.o_proj.weight", {s.dim, s.heads * head_dim});
  AddTensor(unit, prefix + "mlp.gate_proj.weight", {s.ff_dim, s.dim});
  AddTensor(unit, prefix + "mlp.up_proj.weight", {s.ff_dim, s.dim});
  AddTensor(unit, prefix + "mlp.down_proj.weight", {s.dim, s.ff_dim});
  AddTensor(unit, prefix + "input_layernorm.weight", {s.dim});
  AddTensor(unit, prefix + "post_attention_layernorm.weight", {s.dim});
  if (s.qk_norm) {
    AddTensor(unit, prefix + "self_attn.q_norm.weight", {head_dim});
    AddTensor(unit, prefix + "self_attn.k_norm.weight", {head_dim});
  }
  for (TensorLayout& tensor : unit.tensors) tensor.matrix = tensor.shape.size() == 2;
  return unit;
}

}  // namespace

int64_t ModelLayout::elements() const {
  int64_t total = 0;
  for (const UnitLayout& unit : units) total += unit.elements;
  return total;
}

absl::StatusOr<ModelLayout> LayOutTransformer(const TransformerShape& shape) {
  LH_RETURN_IF_ERROR(Validate(shape));
  ModelLayout model;
  UnitLayout embedding{.name = "embedding", .kind = UnitKind::kEmbedding};
  AddTensor(embedding, "model.embed_tokens.weight", {shape.vocab, shape.dim});
  model.units.push_back(std::move(embedding));
  for (int64_t layer = 0; layer < shape.layers; ++layer)
    model.units.push_back(LayOutBlock(shape, layer));
  UnitLayout head{.name = "head", .kind = UnitKind::kHead};
  AddTensor(head, "model.norm.weight", {shape.dim});
  if (!shape.tie_embeddings) AddTensor(head, "lm_head.weight", {shape.vocab, shape.dim});
  model.units.push_back(std::move(head));
  LH_RETURN_IF_ERROR(RequireTotal(model));
  return model;
}

absl::StatusOr<ModelLayout> LayOutSynthetic(int64_t units, int64_t elements) {
  LH_RETURN_IF_ERROR(RequireRange("units", units, 1, 4096));
  LH_RETURN_IF_ERROR(RequireRange("elements", elements, 1, int64_t{1} << 36));
  ModelLayout model;
  for (int64_t i = 0; i < units; ++i) {
    UnitLayout unit{.name = absl::StrCat("vector ", i), .kind = UnitKind::kVector};
    AddTensor(unit, absl::StrCat("vector.", i), {elements});
    model.units.push_back(std::move(unit));
  }
  LH_RETURN_IF_ERROR(RequireTotal(model));
  return model;
}

}  // namespace longhaul
