#include "worker/lm/language_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "ATen/Parallel.h"
#include "ATen/TensorOperators.h"
#include "ATen/core/grad_mode.h"
#include "ATen/ops/bmm.h"
#include "ATen/ops/embedding.h"
#include "ATen/ops/empty.h"
#include "ATen/ops/linear.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/silu.h"
#include "ATen/ops/softmax.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/finite.h"
#include "common/base/status_macros.h"
#include "worker/engine/torch_status.h"
#include "worker/model/block_tensors.h"
#include "worker/model/fused_pass.h"
#include "worker/model/language_batch.h"
#include "worker/model/layers.h"
#include "worker/model/transformer_lm.h"

namespace longhaul {
namespace {

constexpr int64_t kLogitFloats = int64_t{1} << 24;  // That exist at once.
constexpr int64_t kReadElements = int64_t{1} << 24;

absl::Status CheckTokens(absl::Span<const int64_t> tokens, int64_t vocab) {
  if (tokens.empty()) return absl::InvalidArgumentError("there are no tokens");
  for (size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] >= 0 && tokens[i] < vocab) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("token ", i, " is ", tokens[i], ", the model's are below ", vocab));
  }
  return absl::OkStatus();
}

absl::Status NotFinite() {
  return absl::DataLossError(
      "the model's logits are not finite: its training has diverged, or its parameters are "
      "damaged");
}

at::Tensor TensorOf(absl::Span<const int64_t> tokens) {
  at::Tensor tensor = at::empty({static_cast<int64_t>(tokens.size())}, at::kLong);
  std::copy(tokens.begin(), tokens.end(), tensor.data_ptr<int64_t>());
  return tensor;
}

}  // namespace

class LanguageModel::Weights {
 public:
  Weights(const TransformerShape& shape, ModelLayout layout)
      : shape_(shape), layout_(std::move(layout)) {}

  absl::Status Read(const InitialParameters& parameters) {
    for (int unit = 0; unit < static_cast<int>(layout_.units.size()); ++unit) {
      const UnitLayout& of = layout_.units[unit];
      flat_.push_back(at::empty({of.elements}, at::kFloat));
      const absl::Span<float> values(flat_.back().data_ptr<float>(), of.elements);
      for (int64_t at = 0; at < of.elements; at += kReadElements)
        LH_RETURN_IF_ERROR(parameters.Read(unit, at, values.subspan(at, kReadElements)));
      std::vector<at::Tensor>& views = views_.emplace_back();
      for (const TensorLayout& tensor : of.tensors)
        views.push_back(flat_.back().narrow(0, tensor.offset, tensor.elements).view(tensor.shape));
    }
    if (shape_.tie_embeddings) views_.back().push_back(views_[0][0]);
    return absl::OkStatus();
  }

  const TransformerShape& shape() const { return shape_; }
  // As Model::Forward takes them.
  const std::vector<at::Tensor>& unit(int unit) const { return views_[unit]; }
  int units() const { return static_cast<int>(views_.size()); }
  // `count` matrices from `first` on as one: they lie one after another.
  at::Tensor Together(int unit, int first, int count) const {
    const UnitLayout& of = layout_.units[unit];
    int64_t rows = 0;
    for (int t = first; t < first + count; ++t) rows += of.tensors[t].shape[0];
    const int64_t columns = of.tensors[first].shape[1];
    return flat_[unit].narrow(0, of.tensors[first].offset, rows * columns).view({rows, columns});
  }
  at::Tensor Head(const at::Tensor& x_TD) const {
    return at::linear(RmsNorm(x_TD, views_.back()[0], shape_.norm_eps), views_.back()[1]);
  }

 private:
  const TransformerShape shape_;
  const ModelLayout layout_;
  std::vector<at::Tensor> flat_;  // By unit.
  std::vector<std::vector<at::Tensor>> views_;
};

// Dimensions as in layers.h; one sequence; N positions that are cached.
class LanguageModel::Cached : public LanguageModel::Continuation {
 public:
  Cached(const Weights& weights, int64_t positions_max)
      : w_(weights), s_(weights.shape()), positions_max_(positions_max) {
    rotary_ =
        MakeRotaryTables(positions_max, s_.head_width(), s_.rope_theta, s_.rope_scaling, at::kCPU);
    for (int64_t layer = 0; layer < s_.layers; ++layer) {
      const auto make = [&] {
        return at::empty({s_.kv_heads, positions_max, s_.head_width()}, at::kFloat);
      };
      keys_KNW_.push_back(make());
      values_KNW_.push_back(make());
    }
  }

  absl::StatusOr<absl::Span<const float>> Append(absl::Span<const int64_t> tokens) override {
    return CatchTorch("continuing", [&]() -> absl::StatusOr<absl::Span<const float>> {
      LH_ASSIGN_OR_RETURN(const at::Tensor x_TD, Hidden(tokens));
      const at::NoGradGuard no_gradients;
      logits_ = w_.Head(x_TD.narrow(0, x_TD.size(0) - 1, 1)).contiguous();
      const absl::Span<const float> logits(logits_.const_data_ptr<float>(), s_.vocab);
      if (!AllFinite(logits)) return NotFinite();
      return logits;
    });
  }
  int64_t positions() const override { return positions_; }

  // Of the first tokens, before they are appended.
  void SetDocuments(absl::Span<const int64_t> starts) {
    mask_B1TT_ = DocumentMask(TensorOf(starts).unsqueeze(0), at::kFloat);
  }

  // The last block's output, for each of the tokens.
  absl::StatusOr<at::Tensor> Hidden(absl::Span<const int64_t> tokens) {
    LH_RETURN_IF_ERROR(CheckTokens(tokens, s_.vocab));
    const auto count = static_cast<int64_t>(tokens.size());
    if (count > positions_max_ - positions_) {
      return absl::InvalidArgumentError(
          absl::StrCat("more than ", positions_max_, " tokens in a sequence"));
    }
    const at::NoGradGuard no_gradients;
    at::Tensor x_TD = at::embedding(w_.unit(0)[0], TensorOf(tokens));
    for (int layer = 0; layer < static_cast<int>(s_.layers); ++layer) x_TD = Block(layer, x_TD);
    positions_ += count;
    return x_TD;
  }

 private:
  at::Tensor Block(int layer, const at::Tensor& x_TD) {
    const int unit = layer + 1;
    const std::vector<at::Tensor>& weights = w_.unit(unit);
    const at::Tensor middle_TD =
        x_TD + at::linear(Attend(layer, RmsNorm(x_TD, weights[kInputNorm], s_.norm_eps)),
                          weights[kOutput]);
    const at::Tensor normed_TD = RmsNorm(middle_TD, weights[kMlpNorm], s_.norm_eps);
    const auto halves = at::linear(normed_TD, w_.Together(unit, kGate, 2)).chunk(2, -1);
    return middle_TD + at::linear(at::silu(halves[0]) * halves[1], weights[kDown]);
  }

  // Returns [T, H * W].
  at::Tensor Attend(int layer, const at::Tensor& normed_TD) {
    const int unit = layer + 1;
    const std::vector<at::Tensor>& weights = w_.unit(unit);
    const int64_t count = normed_TD.size(0), width = s_.head_width();
    const auto heads = at::linear(normed_TD, w_.Together(unit, kQuery, 3))
                           .view({1, count, s_.heads + 2 * s_.kv_heads, width})
                           .transpose(1, 2)
                           .split_with_sizes({s_.heads, s_.kv_heads, s_.kv_heads}, 1);
    at::Tensor q_BHTW = heads[0], k_BKTW = heads[1];
    if (s_.qk_norm) {
      q_BHTW = RmsNorm(q_BHTW, weights[kQueryNorm], s_.norm_eps);
      k_BKTW = RmsNorm(k_BKTW, weights[kKeyNorm], s_.norm_eps);
    }
    q_BHTW = Rotate(q_BHTW, rotary_, positions_);
    k_BKTW = Rotate(k_BKTW, rotary_, positions_);
    keys_KNW_[layer].narrow(1, positions_, count).copy_(k_BKTW[0]);
    values_KNW_[layer].narrow(1, positions_, count).copy_(heads[2][0]);
    if (positions_ == 0) return CausalAttention(q_BHTW, k_BKTW, heads[2], mask_B1TT_)[0];
    return AttendCached(layer, q_BHTW[0]);
  }

  // The query heads of a key head together, so that no key is repeated in memory.
  at::Tensor AttendCached(int layer, const at::Tensor& q_HTW) const {
    const int64_t count = q_HTW.size(1), width = s_.head_width(), group = s_.heads / s_.kv_heads;
    const int64_t end = positions_ + count;
    const at::Tensor q_KRW = q_HTW.reshape({s_.kv_heads, group * count, width});  // R = group * T
    at::Tensor scores_KRN = at::bmm(q_KRW, keys_KNW_[layer].narrow(1, 0, end).transpose(1, 2)) /
                            std::sqrt(static_cast<double>(width));
    if (count > 1) {
      const at::Tensor hidden_TN = at::ones({count, end}, at::kBool).tril(positions_).logical_not();
      scores_KRN = scores_KRN.view({s_.kv_heads, group, count, end})
                       .masked_fill(hidden_TN, -INFINITY)
                       .view({s_.kv_heads, group * count, end});
    }
    return at::bmm(at::softmax(scores_KRN, -1), values_KNW_[layer].narrow(1, 0, end))
        .view({s_.heads, count, width})
        .transpose(0, 1)
        .reshape({count, s_.heads * width});
  }

  const Weights& w_;
  const TransformerShape& s_;
  const int64_t positions_max_;
  RotaryTables rotary_;
  at::Tensor mask_B1TT_;                           // Undefined: one document.
  std::vector<at::Tensor> keys_KNW_, values_KNW_;  // By layer.
  int64_t positions_ = 0;
  at::Tensor logits_;
};

LanguageModel::LanguageModel(std::unique_ptr<Weights> weights) : weights_(std::move(weights)) {}
LanguageModel::~LanguageModel() = default;
const TransformerShape& LanguageModel::shape() const { return weights_->shape(); }

absl::StatusOr<std::unique_ptr<LanguageModel>> LanguageModel::Load(
    const TransformerShape& shape, const InitialParameters& parameters, int threads) {
  return CatchTorch("loading", [&]() -> absl::StatusOr<std::unique_ptr<LanguageModel>> {
    at::set_num_threads(threads);
    LH_ASSIGN_OR_RETURN(ModelLayout layout, LayOutTransformer(shape));
    auto weights = std::make_unique<Weights>(shape, std::move(layout));
    LH_RETURN_IF_ERROR(weights->Read(parameters));
    return std::unique_ptr<LanguageModel>(new LanguageModel(std::move(weights)));
  });
}

absl::Status LanguageModel::Logits(
    absl::Span<const int64_t> tokens,
    absl::FunctionRef<absl::Status(int64_t first, absl::Span<const float>)> take,
    absl::Span<const int64_t> document_starts) {
  LH_CHECK(document_starts.empty() || document_starts.size() == tokens.size(),
           "each token is of a document");
  return CatchTorch("computing logits", [&]() -> absl::Status {
    Cached sequence(*weights_, static_cast<int64_t>(tokens.size()));
    if (!document_starts.empty()) sequence.SetDocuments(document_starts);
    LH_ASSIGN_OR_RETURN(const at::Tensor x_TD, sequence.Hidden(tokens));
    const at::NoGradGuard no_gradients;
    const int64_t rows = std::max<int64_t>(1, kLogitFloats / shape().vocab);
    for (int64_t first = 0; first < x_TD.size(0); first += rows) {
      const at::Tensor logits =
          weights_->Head(x_TD.narrow(0, first, std::min(rows, x_TD.size(0) - first))).contiguous();
      LH_RETURN_IF_ERROR(
          take(first, absl::MakeConstSpan(logits.const_data_ptr<float>(), logits.numel())));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<double> LanguageModel::LossSum(absl::Span<const int64_t> tokens, int64_t context,
                                              absl::Span<const int64_t> document_starts,
                                              absl::Span<const int64_t> loss_mask) {
  return CatchTorch("computing the loss", [&]() -> absl::StatusOr<double> {
    LH_RETURN_IF_ERROR(CheckTokens(tokens, shape().vocab));
    TransformerShape of_batch = shape();
    of_batch.context = context;
    LH_ASSIGN_OR_RETURN(const auto model, TransformerLm::Create(of_batch, at::kCPU));
    const std::unique_ptr<FusedPass> pass = model->MakeFusedPass(at::kFloat);
    const at::Tensor all = TensorOf(tokens).view({-1, context + 1});
    LanguageBatch batch{all.narrow(1, 0, context), all.narrow(1, 1, context)};
    if (!document_starts.empty())
      batch.document_starts_BT = TensorOf(document_starts).view({-1, context});
    if (!loss_mask.empty())
      batch.loss_mask_BT = TensorOf(loss_mask).view({-1, context}).to(at::kBool);
    pass->Begin(batch, {.keep = FusedPass::Keep::kNothing});
    for (int unit = 0; unit < weights_->units(); ++unit) pass->Forward(unit, weights_->unit(unit));
    const double loss_sum = pass->sums()[0];
    if (!std::isfinite(loss_sum)) return NotFinite();
    return loss_sum;
  });
}

absl::StatusOr<std::unique_ptr<LanguageModel::Continuation>> LanguageModel::Begin(
    int64_t positions_max) const {
  return CatchTorch("beginning", [&]() -> absl::StatusOr<std::unique_ptr<Continuation>> {
    return std::make_unique<Cached>(*weights_, positions_max);
  });
}

}  // namespace longhaul
