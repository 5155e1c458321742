#include "common/config/transformer_spec.h"

#include <string>

#include "absl/strings/string_view.h"
#include "common/config/checks.h"

namespace longhaul {
namespace {

struct NamedSize {
  absl::string_view name;
  int32_t layers, dim, heads, ff_dim;
};
constexpr NamedSize kSizes[] = {{"35m", 6, 512, 8, 1408},
                                {"150m", 12, 896, 14, 2432},
                                {"1b", 16, 2048, 32, 8192},
                                {"7b", 32, 4096, 32, 11008}};

void FillSize(v1::TransformerSpec& spec) {
  for (const NamedSize& size : kSizes) {
    if (size.name != spec.size()) continue;
    if (spec.layers() == 0) spec.set_layers(size.layers);
    if (spec.dim() == 0) spec.set_dim(size.dim);
    if (spec.heads() == 0) spec.set_heads(size.heads);
    if (spec.ff_dim() == 0) spec.set_ff_dim(size.ff_dim);
  }
}

}  // namespace

TransformerShape ShapeOf(const v1::TransformerSpec& spec) {
  TransformerShape shape{.layers = spec.layers(),
                         .dim = spec.dim(),
                         .heads = spec.heads(),
                         .kv_heads = spec.kv_heads(),
                         .ff_dim = spec.ff_dim(),
                         .context = spec.context(),
                         .vocab = spec.vocab(),
                         .rope_theta = spec.rope_theta(),
                         .norm_eps = spec.norm_eps(),
                         .qk_norm = spec.qk_norm(),
                         .tie_embeddings = spec.tie_embeddings(),
                         .head_dim = spec.head_dim(),
                         .positions = spec.positions()};
  const v1::RopeScalingSpec& scaling = spec.rope_scaling();
  if (scaling.has_llama3()) {
    shape.rope_scaling = {.kind = RopeScaling::Kind::kLlama3,
                          .factor = scaling.llama3().factor(),
                          .low_freq_factor = scaling.llama3().low_freq_factor(),
                          .high_freq_factor = scaling.llama3().high_freq_factor(),
                          .original_context = scaling.llama3().original_context()};
  } else if (scaling.kind_case() == v1::RopeScalingSpec::kLinear) {
    shape.rope_scaling = {.kind = RopeScaling::Kind::kLinear, .factor = scaling.linear()};
  }
  return shape;
}

v1::TransformerSpec SpecOf(const TransformerShape& shape) {
  v1::TransformerSpec spec;
  spec.set_layers(static_cast<int32_t>(shape.layers));
  spec.set_dim(static_cast<int32_t>(shape.dim));
  spec.set_heads(static_cast<int32_t>(shape.heads));
  spec.set_kv_heads(static_cast<int32_t>(shape.kv_heads));
  spec.set_ff_dim(static_cast<int32_t>(shape.ff_dim));
  spec.set_context(static_cast<int32_t>(shape.context));
  spec.set_vocab(static_cast<int32_t>(shape.vocab));
  spec.set_rope_theta(shape.rope_theta);
  spec.set_norm_eps(shape.norm_eps);
  spec.set_qk_norm(shape.qk_norm);
  spec.set_tie_embeddings(shape.tie_embeddings);
  spec.set_head_dim(static_cast<int32_t>(shape.head_width()));
  spec.set_positions(static_cast<int32_t>(shape.positions));
  const RopeScaling& scaling = shape.rope_scaling;
  if (scaling.kind == RopeScaling::Kind::kLinear) {
    spec.mutable_rope_scaling()->set_linear(scaling.factor);
  } else if (scaling.kind == RopeScaling::Kind::kLlama3) {
    v1::Llama3RopeScaling& llama3 = *spec.mutable_rope_scaling()->mutable_llama3();
    llama3.set_factor(scaling.factor);
    llama3.set_low_freq_factor(scaling.low_freq_factor);
    llama3.set_high_freq_factor(scaling.high_freq_factor);
    llama3.set_original_context(static_cast<int32_t>(scaling.original_context));
  }
  return spec;
}

void FillTransformer(v1::TransformerSpec& spec) {
  FillSize(spec);
  if (spec.kv_heads() == 0) spec.set_kv_heads(spec.heads());
  // If it does not divide, the layout reports that.
  if (spec.head_dim() == 0 && spec.heads() > 0 && spec.dim() % spec.heads() == 0)
    spec.set_head_dim(spec.dim() / spec.heads());
  if (spec.positions() == 0) spec.set_positions(spec.context());
}

void ValidateTransformer(const v1::TransformerSpec& spec, ViolationList& violations) {
  const std::string path = "model.transformer.";
  const auto require = [&](const char* field, int64_t value) {
    if (value == 0) violations.Invalid(path + field, "is required");
  };
  require("layers", spec.layers());
  require("dim", spec.dim());
  require("heads", spec.heads());
  require("ff_dim", spec.ff_dim());
  require("context", spec.context());
  if (!spec.size().empty()) {
    std::vector<std::string> names;
    for (const NamedSize& size : kSizes) names.emplace_back(size.name);
    RequireChoice(violations, path + "size", spec.size(), names, {});
  }
  if (spec.has_rope_scaling() &&
      spec.rope_scaling().kind_case() == v1::RopeScalingSpec::KIND_NOT_SET) {
    violations.Invalid(path + "rope_scaling", "names no kind", "llama3 or linear");
  }
}

}  // namespace longhaul
