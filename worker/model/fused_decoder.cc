#include "worker/model/fused_decoder.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "c10/util/BFloat16.h"
#include "c10/util/Exception.h"
#include "common/base/check.h"
#include "common/layout/head_logits.h"
#include "worker/kernels/cross_entropy.h"
#include "worker/kernels/rms_norm.h"
#include "worker/model/block_tensors.h"
#include "worker/model/language_batch.h"
#include "worker/model/parallel.h"

namespace longhaul {
namespace {

static_assert(kRowBlock == kKernelRowsMin);

void CopyTokens(const at::Tensor& tokens_BT, int64_t vocab, std::vector<int64_t>& out) {
  const int64_t positions = tokens_BT.size(1);
  out.resize(tokens_BT.numel());
  for (int64_t b = 0; b < tokens_BT.size(0); ++b) {
    const int64_t* const row = tokens_BT.const_data_ptr<int64_t>() + b * tokens_BT.stride(0);
    for (int64_t t = 0; t < positions; ++t) {
      const int64_t token = row[t * tokens_BT.stride(1)];
      TORCH_CHECK_INDEX(token >= 0 && token < vocab, "token ", token, " is not below ", vocab);
      out[b * positions + t] = token;
    }
  }
}

void CopyStarts(const at::Tensor& starts_BT, std::vector<int64_t>& out) {
  const int64_t positions = starts_BT.size(1);
  out.resize(starts_BT.numel());
  for (int64_t b = 0; b < starts_BT.size(0); ++b) {
    const int64_t* const row = starts_BT.const_data_ptr<int64_t>() + b * starts_BT.stride(0);
    for (int64_t t = 0; t < positions; ++t) {
      const int64_t start = row[t * starts_BT.stride(1)];
      TORCH_CHECK_INDEX(start == t || (t > 0 && start == out[b * positions + t - 1]), "position ",
                        t, " is of a document that begins at ", start);
      out[b * positions + t] = start;
    }
  }
}

// Targets without a loss become negative, which the kernel leaves out.
void LeaveOut(const at::Tensor& mask_BT, std::vector<int64_t>& targets) {
  const at::Tensor mask = mask_BT.contiguous();
  const bool* const counts = mask.const_data_ptr<bool>();
  for (size_t i = 0; i < targets.size(); ++i) {
    if (!counts[i]) targets[i] = kernels::kNoTarget;
  }
}

// The slot of several gradients that are neighbours in memory.
GradientSlot Together(GradientSlots& gradients, const UnitLayout& layout, int unit, int first,
                      int count) {
  const GradientSlot slot = gradients.Slot({unit, first});
  for (int t = first + 1; t < first + count; ++t) {
    const GradientSlot other = gradients.Slot({unit, t});
    LH_CHECK(other.add == slot.add &&
                 other.data == slot.data + layout.tensors[t].offset - layout.tensors[first].offset,
             "tensors of one product are apart");
  }
  return slot;
}

}  // namespace

FusedDecoder::FusedDecoder(const TransformerShape& shape, const ModelLayout& layout,
                           const RotaryTables& rotary, at::ScalarType compute)
    : shape_(shape),
      layout_(layout),
      rotary_(rotary),
      products_(/*bfloat16=*/compute == at::kBFloat16) {}

void FusedDecoder::Begin(const StagedBatch& batch, const Options& options) {
  const at::Tensor &inputs_BT = batch.tensors[kInputs], &targets_BT = batch.tensors[kTargets];
  const at::Tensor &starts_BT = batch.tensors[kDocumentStarts], &mask_BT = batch.tensors[kLossMask];
  options_ = options;
  block_ = {.sequences = inputs_BT.size(0),
            .positions = inputs_BT.size(1),
            .dim = shape_.dim,
            .heads = shape_.heads,
            .kv_heads = shape_.kv_heads,
            .head_width = shape_.head_width(),
            .ff_dim = shape_.ff_dim,
            .norm_eps = shape_.norm_eps,
            .qk_norm = shape_.qk_norm};
  TORCH_CHECK(block_.positions <= rotary_.cos_TW.size(0), "a sequence is longer than the context");
  threads_ = at::get_num_threads();
  CopyTokens(inputs_BT, shape_.vocab, inputs_);
  CopyTokens(targets_BT, shape_.vocab, targets_);
  if (mask_BT.defined()) {
    TORCH_CHECK(mask_BT.sizes() == targets_BT.sizes(), "a loss mask is of another batch");
    LeaveOut(mask_BT, targets_);
  }
  if (starts_BT.defined()) {
    TORCH_CHECK(starts_BT.sizes() == inputs_BT.sizes(), "documents are of another batch");
    CopyStarts(starts_BT, starts_);
    block_.document_starts = starts_.data();
  }
  losses_.resize(block_.row_blocks());
  memory_.CutAnew([this](ActivationMemory::Cutter& cutter) { Cut(cutter); });
}

void FusedDecoder::Cut(ActivationMemory::Cutter& cutter) {
  const bool backward = options_.keep != Keep::kNothing;
  const int64_t dim = shape_.dim, vocab = shape_.vocab;
  stream_.resize(backward ? shape_.layers + 1 : 2);
  for (float*& stream : stream_) stream = cutter.Floats(rows() * dim);
  kept_.resize(keeps_all() ? shape_.layers : 1);
  for (BlockActivations& kept : kept_) kept = BlockActivations::Cut(block_, cutter);
  scratch_ = BlockScratch::Cut(block_, products_, threads_, backward, cutter);
  const int64_t run = std::max(kRowBlock, kKernelLogitsMax / vocab / kRowBlock * kRowBlock);
  logit_rows_ = std::min(run, rows());
  normed_ = cutter.Floats(rows() * dim);
  inverse_ = cutter.Floats(rows());
  head_panels_ = cutter.Floats(products_.PanelFloats(dim, vocab));
  logits_ = cutter.Floats(logit_rows_ * vocab);
  converted_ = cutter.Floats(threads_ * products_.ConvertedFloats(kRowBlock, std::max(dim, vocab)));
  if (!backward) return;
  gradient_ = cutter.Floats(rows() * dim);
  next_gradient_ = cutter.Floats(rows() * dim);
  head_panels_back_ = cutter.Floats(products_.PanelFloats(vocab, dim));
  dnormed_ = cutter.Floats(logit_rows_ * dim);
  head_inputs_ = cutter.Floats(products_.PanelFloats(logit_rows_, dim));
  head_pairs_ = cutter.Floats(products_.PairFloats(logit_rows_, vocab));
  head_norms_ = cutter.Floats(block_.row_blocks() * dim);
}

float* FusedDecoder::Stream(int64_t layer) const { return stream_[layer % stream_.size()]; }

WeightMatrix FusedDecoder::Matrix(const at::Tensor& first, int64_t rows, int64_t columns) const {
  return {first.const_data_ptr(), rows, columns};
}

FusedBlock FusedDecoder::BlockOf(int unit, absl::Span<const at::Tensor> weights) const {
  const UnitLayout& layout = layout_.units[unit];
  const auto end_of = [&](int tensor) {
    return static_cast<const char*>(weights[tensor].const_data_ptr()) + weights[tensor].nbytes();
  };
  for (const int tensor : {kQuery, kKey, kGate}) {
    LH_CHECK(end_of(tensor) == weights[tensor + 1].const_data_ptr(),
             "matrices of one product are apart");
  }
  const auto vector = [&](int tensor) { return weights[tensor].const_data_ptr<float>(); };
  BlockWeights w{.qkv = Matrix(weights[kQuery], block_.qkv(), shape_.dim),
                 .output = Matrix(weights[kOutput], shape_.dim, block_.attended()),
                 .gate_up = Matrix(weights[kGate], 2 * shape_.ff_dim, shape_.dim),
                 .down = Matrix(weights[kDown], shape_.dim, shape_.ff_dim),
                 .input_norm = vector(kInputNorm),
                 .mlp_norm = vector(kMlpNorm),
                 .cos = rotary_.cos_TW.const_data_ptr<float>(),
                 .sin = rotary_.sin_TW.const_data_ptr<float>()};
  if (shape_.qk_norm) {
    w.query_norm = vector(kQueryNorm);
    w.key_norm = vector(kKeyNorm);
  }
  return FusedBlock(block_, products_, w, kept_[keeps_all() ? layout.layer : 0], scratch_);
}

void FusedDecoder::Forward(int unit, absl::Span<const at::Tensor> weights) {
  const UnitLayout& layout = layout_.units[unit];
  if (layout.kind == UnitKind::kEmbedding) {
    Embed(weights[0]);
  } else if (layout.kind == UnitKind::kBlock) {
    BlockOf(unit, weights).Forward(Stream(layout.layer), Stream(layout.layer + 1));
  } else {
    HeadForward(weights);
  }
}

void FusedDecoder::Backward(int unit, absl::Span<const at::Tensor> weights,
                            GradientSlots& gradients) {
  const UnitLayout& layout = layout_.units[unit];
  if (layout.kind == UnitKind::kEmbedding) {
    EmbedBackward(gradients.Slot({unit, 0}));
  } else if (layout.kind == UnitKind::kBlock) {
    const FusedBlock block = BlockOf(unit, weights);
    const float* const x = Stream(layout.layer);
    if (!keeps_all()) block.Forward(x, nullptr);
    block.Backward(x, gradient_, next_gradient_, SlotsOf(unit, gradients));
    std::swap(gradient_, next_gradient_);
  } else {
    HeadBackward(unit, weights, gradients);
  }
}

BlockGradients FusedDecoder::SlotsOf(int unit, GradientSlots& gradients) const {
  const UnitLayout& layout = layout_.units[unit];
  const auto slot = [&](int tensor) { return gradients.Slot({unit, tensor}); };
  BlockGradients slots{.qkv = Together(gradients, layout, unit, kQuery, 3),
                       .output = slot(kOutput),
                       .gate_up = Together(gradients, layout, unit, kGate, 2),
                       .down = slot(kDown),
                       .input_norm = slot(kInputNorm),
                       .mlp_norm = slot(kMlpNorm)};
  if (shape_.qk_norm) {
    slots.query_norm = slot(kQueryNorm);
    slots.key_norm = slot(kKeyNorm);
  }
  return slots;
}

void FusedDecoder::Embed(const at::Tensor& table) {
  const int64_t dim = shape_.dim;
  ForTasks(block_.row_blocks(), [&](int64_t block, int) {
    const int64_t end = std::min(rows(), (block + 1) * kRowBlock);
    for (int64_t row = block * kRowBlock; row < end; ++row) {
      float* const to = Stream(0) + row * dim;
      const int64_t at = inputs_[row] * dim;
      if (products_.bfloat16()) {
        std::copy_n(table.const_data_ptr<at::BFloat16>() + at, dim, to);
      } else {
        std::copy_n(table.const_data_ptr<float>() + at, dim, to);
      }
    }
  });
}

// Each thread adds all rows, in their order, for its own columns. So the bits do not depend on the
// number of threads.
void FusedDecoder::EmbedBackward(const GradientSlot& slot) const {
  const int64_t dim = shape_.dim;
  at::parallel_for(0, dim, kRowBlock / 4, [&](int64_t first, int64_t end) {
    if (!slot.add) {
      for (int64_t token = 0; token < shape_.vocab; ++token)
        std::fill(slot.data + token * dim + first, slot.data + token * dim + end, 0.0f);
    }
    for (int64_t row = 0; row < rows(); ++row) {
      float* const to = slot.data + inputs_[row] * dim;
      const float* const from = gradient_ + row * dim;
      for (int64_t i = first; i < end; ++i) to[i] += from[i];
    }
  });
}

void FusedDecoder::HeadForward(absl::Span<const at::Tensor> weights) {
  products_.Prepare({{RightSide::From::kWeightTransposed,
                      Matrix(weights[1], shape_.vocab, shape_.dim), head_panels_}});
  const float* const x = Stream(shape_.layers);
  ForTasks(block_.row_blocks(), [&](int64_t block, int) {
    const int64_t first = block * kRowBlock, count = std::min(kRowBlock, rows() - first);
    kernels::RmsNormForward(x + first * shape_.dim, weights[0].const_data_ptr<float>(),
                            shape_.norm_eps, count, shape_.dim, normed_ + first * shape_.dim,
                            inverse_ + first);
  });
  loss_sum_ = 0;
  // Backward has no use for logits that are not kept.
  if (options_.keep != Keep::kNothing) return;
  for (int64_t first = 0; first < rows(); first += logit_rows_)
    loss_sum_ += Logits(first, std::min(logit_rows_, rows() - first));
}

bool FusedDecoder::HasTarget(int64_t first, int64_t count) const {
  return std::any_of(targets_.begin() + first, targets_.begin() + first + count,
                     [](int64_t target) { return target != kernels::kNoTarget; });
}

double FusedDecoder::Logits(int64_t first, int64_t count) {
  const int64_t blocks = (count + kRowBlock - 1) / kRowBlock;
  const int64_t dim = shape_.dim, vocab = shape_.vocab;
  ForTasks(blocks, [&](int64_t block, int thread) {
    const int64_t at = block * kRowBlock, here = std::min(kRowBlock, count - at);
    float* const logits = logits_ + at * vocab;
    if (!HasTarget(first + at, here)) {
      std::fill_n(logits, here * vocab, 0.0f);
      losses_[block] = 0;
      return;
    }
    products_.Multiply(
        normed_ + (first + at) * dim, head_panels_, {here, dim, vocab}, logits,
        converted_ + thread * products_.ConvertedFloats(kRowBlock, std::max(dim, vocab)));
    losses_[block] =
        kernels::CrossEntropy(logits, targets_.data() + first + at, here, vocab, options_.scale);
  });
  return std::accumulate(losses_.begin(), losses_.begin() + blocks, 0.0);
}

void FusedDecoder::HeadBackward(int unit, absl::Span<const at::Tensor> weights,
                                GradientSlots& gradients) {
  using From = RightSide::From;
  const int64_t dim = shape_.dim, vocab = shape_.vocab;
  const WeightMatrix matrix = Matrix(weights[1], vocab, dim);
  // The weights may have moved since forward, but their values are the same. So forward's panels
  // are still valid.
  products_.Prepare({{From::kWeight, matrix, head_panels_back_}});
  const GradientSlot norm = gradients.Slot({unit, 0});
  GradientSlot slot = gradients.Slot(shape_.tie_embeddings ? TensorRef{0, 0} : TensorRef{unit, 1});
  const float* const x = Stream(shape_.layers);
  for (int64_t first = 0; first < rows(); first += logit_rows_) {
    const int64_t count = std::min(logit_rows_, rows() - first);
    loss_sum_ += Logits(first, count);
    ForTasks((count + kRowBlock - 1) / kRowBlock, [&](int64_t block, int thread) {
      const int64_t at = block * kRowBlock, here = std::min(kRowBlock, count - at);
      float* const dnormed = dnormed_ + at * dim;
      float* const norms = head_norms_ + (first / kRowBlock + block) * dim;
      std::fill_n(norms, dim, 0.0f);
      if (HasTarget(first + at, here)) {
        products_.Multiply(
            logits_ + at * vocab, head_panels_back_, {here, vocab, dim}, dnormed,
            converted_ + thread * products_.ConvertedFloats(kRowBlock, std::max(dim, vocab)));
      } else {
        std::fill_n(dnormed, here * dim, 0.0f);
      }
      kernels::RmsNormBackward(dnormed, x + (first + at) * dim, weights[0].const_data_ptr<float>(),
                               inverse_ + first + at, here, dim,
                               {.dx = gradient_ + (first + at) * dim, .dweight = norms});
    });
    ForGradientRows(products_, {{logits_, count, vocab, head_pairs_}},
                    {{From::kInput, {normed_ + first * dim, count, dim}, head_inputs_}}, {slot});
    slot.add = true;
  }
  if (!norm.add) std::fill_n(norm.data, dim, 0.0f);
  for (int64_t block = 0; block < block_.row_blocks(); ++block) {
    for (int64_t i = 0; i < dim; ++i) norm.data[i] += head_norms_[block * dim + i];
  }
}

}  // namespace longhaul
