#include <algorithm>
#include <vector>

#include "ATen/core/grad_mode.h"
#include "ATen/ops/addmm.h"
#include "ATen/ops/mm.h"
#include "ATen/ops/rand.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "tests/benchmark/kernels/kernels.h"
#include "worker/engine/torch_muon.h"
#include "worker/kernels/attention.h"
#include "worker/kernels/gemm_bf16.h"
#include "worker/model/activation_memory.h"
#include "worker/model/fused_block.h"
#include "worker/model/products.h"

namespace longhaul::benchmark {
namespace {

using From = RightSide::From;

at::Tensor Random(at::IntArrayRef shape, at::ScalarType type = at::kFloat) {
  return at::rand(shape, at::kFloat).sub_(0.5).to(type);
}

// The three products of a d x d weight for some rows, as a block computes them: the weight packed
// for each pass, rows in blocks. What a block packs once for all row blocks is packed once here.
void AddProducts(KernelTable& table, int64_t d, bool bfloat16) {
  // As a micro-batch of some sequences has.
  const int64_t rows = 1024;
  const Products products(bfloat16);
  const auto type = bfloat16 ? at::kBFloat16 : at::kFloat;
  const at::Tensor x = Random({rows, d}), weight = Random({d, d}, type), dy = Random({rows, d});
  at::Tensor y = at::zeros({rows, d}, at::kFloat), dw = at::zeros({d, d}, at::kFloat);
  // As a pass has them.
  ActivationMemory memory;
  float *weight_panels, *input_panels, *pairs, *converted;
  memory.CutAnew([&](ActivationMemory::Cutter& cutter) {
    weight_panels = cutter.Floats(products.PanelFloats(d, d));
    input_panels = cutter.Floats(products.PanelFloats(rows, d));
    pairs = cutter.Floats(products.PairFloats(rows, d));
    converted = cutter.Floats(products.ConvertedFloats(kRowBlock, d));
  });
  const WeightMatrix matrix{weight.const_data_ptr(), d, d};
  const auto multiply = [&](From from, const at::Tensor& left) {
    products.Prepare({{from, matrix, weight_panels}});
    for (int64_t row = 0; row < rows; row += kRowBlock) {
      products.Multiply(left.const_data_ptr<float>() + row * d, weight_panels,
                        {std::min(kRowBlock, rows - row), d, d},
                        y.mutable_data_ptr<float>() + row * d, converted);
    }
  };
  const auto n = static_cast<double>(d);
  const Work work{.operations = 2.0 * static_cast<double>(rows) * n * n, .bfloat16 = bfloat16};
  const std::string kind = bfloat16 ? "gemm_bf16" : "gemm";
  const auto name = [&](const char* pass) { return absl::StrCat(kind, "_d", d, "_", pass); };
  table.Add(name("forward"), work, [&] { multiply(From::kWeightTransposed, x); });
  table.Add(name("dx"), work, [&] { multiply(From::kWeight, dy); });
  table.Add(name("dw"), work, [&] {
    ForGradientRows(products, {{dy.const_data_ptr<float>(), rows, d, pairs}},
                    {{From::kInput, {x.const_data_ptr(), rows, d}, input_panels}},
                    {{dw.mutable_data_ptr<float>(), false}});
  });
  const at::Tensor left = x.to(type), gradient = dy.to(type);
  at::Tensor out = at::zeros({rows, d}, type), out_w = at::zeros({d, d}, type);
  table.Add("torch_" + name("forward"), work, [&] { at::mm_out(out, left, weight.t()); }, {});
  table.Add("torch_" + name("dx"), work, [&] { at::mm_out(out, gradient, weight); }, {});
  table.Add("torch_" + name("dw"), work, [&] { at::mm_out(out_w, gradient.t(), left); }, {});
}

// One key head with four query heads.
void AddAttention(KernelTable& table, int64_t positions, int64_t width) {
  const kernels::AttentionShape shape{.positions = positions, .width = width, .query_heads = 4};
  const int64_t stride = 6 * width, out_stride = 4 * width;
  const at::Tensor qkv = Random({positions, stride}), dout = Random({positions, out_stride});
  at::Tensor dqkv = Random({positions, stride}), out = Random({positions, out_stride});
  at::Tensor sums = at::zeros({4 * positions}, at::kFloat),
             scratch = at::zeros({kernels::AttentionScratch(shape)}, at::kFloat);
  const float* const q = qkv.const_data_ptr<float>();
  const kernels::AttentionInputs inputs{q, q + 4 * width, q + 5 * width, stride, nullptr};
  float* const dq = dqkv.mutable_data_ptr<float>();
  // A product of all queries with the keys up to them.
  const double product = static_cast<double>(positions) * static_cast<double>(positions + 1) *
                         static_cast<double>(width) * 4;
  // And as many exponentials, each with four instructions around it, as there are pairs of a query
  // and a key.
  const double softmax = 2 * (13 + 4) * product / static_cast<double>(2 * width);
  const std::string name = absl::StrCat("attention_t", positions, "_w", width);
  const auto forward = [&] {
    kernels::AttentionForward(shape, inputs, out.mutable_data_ptr<float>(), out_stride,
                              sums.mutable_data_ptr<float>(), scratch.mutable_data_ptr<float>());
  };
  table.Add(name + "_forward", {.operations = 2 * product + softmax}, forward);
  if (!table.Wants(name + "_backward")) return;
  forward();
  table.Add(name + "_backward", {.operations = 5 * product + softmax}, [&] {
    kernels::AttentionBackward(
        shape, inputs, out.const_data_ptr<float>(), dout.const_data_ptr<float>(), out_stride,
        sums.const_data_ptr<float>(), {dq, dq + 4 * width, dq + 5 * width, stride},
        scratch.mutable_data_ptr<float>());
  });
}

void AddMuon(KernelTable& table, int64_t n, MuonPrecision precision) {
  at::Tensor parameters = Random({n * n}), momentum = Random({n, n});
  const at::Tensor gradient = Random({n * n});
  const auto size = static_cast<size_t>(n * n);
  const auto side = static_cast<double>(n);
  const bool narrow = precision == MuonPrecision::kBfloat16;
  table.Add(absl::StrCat("muon_d", n, narrow ? "_bf16" : ""),
            {.operations = 5 * 3 * 2 * side * side * side, .bfloat16 = narrow}, [&] {
              UpdateMatrix({.iterations = precision}, {.elements = n * n, .rows = n, .columns = n},
                           {.learning_rate = 1e-3},
                           {.parameters = {parameters.mutable_data_ptr<float>(), size},
                            .gradients = {gradient.const_data_ptr<float>(), size}},
                           momentum, at::kCPU);
            });
}

}  // namespace

void AddProductKernels(KernelTable& table, int64_t widest) {
  const at::NoGradGuard no_grad;
  // Without the instruction a quarter of float32's rate is expected, and libtorch is slower still.
  const bool fast_bf16 = kernels::HasFastBf16();
  for (const bool bfloat16 : {false, true}) {
    if (bfloat16 && !fast_bf16) continue;
    for (const int64_t d : {96, 256, 1024, 4096}) {
      if (d <= widest && table.Wants(absl::StrCat(bfloat16 ? "gemm_bf16_d" : "gemm_d", d)))
        AddProducts(table, d, bfloat16);
    }
  }
  AddAttention(table, std::min<int64_t>(512, widest), 64);
  if (widest > 512) AddAttention(table, 2048, 128);
  AddMuon(table, std::min<int64_t>(1024, widest), MuonPrecision::kFloat32);
  if (fast_bf16) AddMuon(table, std::min<int64_t>(1024, widest), MuonPrecision::kBfloat16);
}

}  // namespace longhaul::benchmark
