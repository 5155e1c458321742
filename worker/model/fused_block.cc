#include "worker/model/fused_block.h"

#include <algorithm>

#include "worker/kernels/rms_norm.h"
#include "worker/kernels/rotary.h"
#include "worker/kernels/swiglu.h"
#include "worker/model/parallel.h"

namespace longhaul {
namespace {

kernels::AttentionShape GroupOf(const BlockShape& s) {
  return {.positions = s.positions, .width = s.head_width, .query_heads = s.heads / s.kv_heads};
}

int64_t NormsWidth(const BlockShape& s) { return 2 * s.dim + 2 * s.head_width; }

// Into how many parts the attention of a key head is cut, so that all threads have work where there
// are fewer heads than threads. `extra`: the work of a part, of its share of the whole.
int64_t AttentionParts(const BlockShape& s, int threads, double extra) {
  const int64_t heads = s.sequences * s.kv_heads;
  const int64_t blocks = (s.positions + kernels::kQueryBlock - 1) / kernels::kQueryBlock;
  // The time of the thread with the most parts, of that of a head.
  const auto time = [&](int64_t parts) {
    const int64_t most = (heads * parts + threads - 1) / threads;
    return static_cast<double>(most) / static_cast<double>(parts) * (parts == 1 ? 1 : extra);
  };
  int64_t best = 1;
  for (int64_t parts = 2; parts <= std::min<int64_t>(blocks, threads); ++parts) {
    if (time(parts) < time(best)) best = parts;
  }
  return best;
}

// The scratch of a thread for a block of rows: their normed input, their gated rows, and the
// largest converted left side.
int64_t RowScratch(const BlockShape& s, const Products& products) {
  const int64_t widest = std::max({s.qkv(), s.dim, s.attended(), 2 * s.ff_dim});
  return kRowBlock * (s.dim + s.ff_dim) + products.ConvertedFloats(kRowBlock, widest) + 64;
}

}  // namespace

BlockActivations BlockActivations::Cut(const BlockShape& s, ActivationMemory::Cutter& cutter) {
  const int64_t rows = s.rows();
  BlockActivations a;
  a.qkv = cutter.Floats(rows * s.qkv());
  if (s.qk_norm) {
    a.unnormed = cutter.Floats(rows * s.turned_heads() * s.head_width);
    a.inverse_qk = cutter.Floats(rows * s.turned_heads());
  }
  a.attended = cutter.Floats(rows * s.attended());
  a.log_sums = cutter.Floats(rows * s.heads);
  a.middle = cutter.Floats(rows * s.dim);
  a.gate_up = cutter.Floats(rows * 2 * s.ff_dim);
  a.inverse_input = cutter.Floats(rows);
  a.inverse_mlp = cutter.Floats(rows);
  return a;
}

BlockScratch BlockScratch::Cut(const BlockShape& s, const Products& products, int threads,
                               bool backward, ActivationMemory::Cutter& cutter) {
  BlockScratch scratch;
  const int64_t rows = s.rows();
  const int64_t outs[] = {s.qkv(), s.dim, 2 * s.ff_dim, s.dim};
  const int64_t ins[] = {s.dim, s.attended(), s.dim, s.ff_dim};
  for (int i = 0; i < 4; ++i) {
    scratch.weights[i] = cutter.Floats(
        std::max(products.PanelFloats(ins[i], outs[i]), products.PanelFloats(outs[i], ins[i])));
  }
  scratch.per_thread =
      std::max(RowScratch(s, products), kernels::AttentionScratch(GroupOf(s)) + 16) / 16 * 16 + 16;
  scratch.threads = cutter.Floats(threads * scratch.per_thread);
  if (!backward) return scratch;
  for (int i = 0; i < 4; ++i) {
    scratch.inputs[i] = cutter.Floats(products.PanelFloats(rows, ins[i]));
    scratch.pairs[i] = cutter.Floats(products.PairFloats(rows, outs[i]));
  }
  for (float** piece : {&scratch.dmiddle, &scratch.normed_input, &scratch.normed_mlp})
    *piece = cutter.Floats(rows * s.dim);
  scratch.dattended = cutter.Floats(rows * s.attended());
  scratch.gated = cutter.Floats(rows * s.ff_dim);
  scratch.dqkv = cutter.Floats(rows * s.qkv());
  scratch.norms = cutter.Floats(s.row_blocks() * NormsWidth(s));
  return scratch;
}

FusedBlock::Rows FusedBlock::RowsOf(int64_t block) const {
  const int64_t first = block * kRowBlock;
  return {first, std::min(kRowBlock, s_.rows() - first)};
}

void FusedBlock::Forward(const float* x, float* y) const {
  using From = RightSide::From;
  products_.Prepare({{From::kWeightTransposed, w_.qkv, scratch_.weights[0]},
                     {From::kWeightTransposed, w_.output, scratch_.weights[1]},
                     {From::kWeightTransposed, w_.gate_up, scratch_.weights[2]},
                     {From::kWeightTransposed, w_.down, scratch_.weights[3]}});
  ForTasks(s_.row_blocks(),
           [&](int64_t block, int thread) { Project(x, RowsOf(block), Thread(thread)); });
  // Each part packs the keys and values.
  const int64_t parts = AttentionParts(s_, at::get_num_threads(), 1.1);
  ForTasks(s_.sequences * s_.kv_heads * parts, [&](int64_t task, int thread) {
    Attend(task / parts, {task % parts, parts}, Thread(thread));
  });
  ForTasks(s_.row_blocks(),
           [&](int64_t block, int thread) { Finish(x, y, RowsOf(block), Thread(thread)); });
}

void FusedBlock::Project(const float* x, Rows rows, float* scratch) const {
  const int64_t width = s_.head_width, turned = s_.turned_heads(), qkv = s_.qkv();
  float* const normed = scratch;
  float* const converted = scratch + kRowBlock * s_.dim;
  kernels::RmsNormForward(x + rows.first * s_.dim, w_.input_norm, s_.norm_eps, rows.count, s_.dim,
                          normed, a_.inverse_input + rows.first);
  products_.Multiply(normed, scratch_.weights[0], {rows.count, s_.dim, qkv},
                     a_.qkv + rows.first * qkv, converted);
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    float* const heads = a_.qkv + row * qkv;
    if (s_.qk_norm) {
      float* const unnormed = a_.unnormed + row * turned * width;
      float* const inverse = a_.inverse_qk + row * turned;
      std::copy_n(heads, turned * width, unnormed);
      kernels::RmsNormForward(unnormed, w_.query_norm, s_.norm_eps, s_.heads, width, heads,
                              inverse);
      kernels::RmsNormForward(unnormed + s_.heads * width, w_.key_norm, s_.norm_eps, s_.kv_heads,
                              width, heads + s_.heads * width, inverse + s_.heads);
    }
    const int64_t angle = row % s_.positions * width;
    kernels::Rotate(heads, turned, width, w_.cos + angle, w_.sin + angle);
  }
}

void FusedBlock::Attend(int64_t task, const kernels::AttentionPart& part, float* scratch) const {
  const kernels::AttentionShape group = GroupOf(s_);
  const int64_t row = task / s_.kv_heads * s_.positions, kv_head = task % s_.kv_heads;
  const int64_t query = kv_head * group.query_heads, width = s_.head_width;
  const float* const qkv = a_.qkv + row * s_.qkv();
  kernels::AttentionForward(group,
                            {.q = qkv + query * width,
                             .k = qkv + (s_.heads + kv_head) * width,
                             .v = qkv + (s_.turned_heads() + kv_head) * width,
                             .stride = s_.qkv(),
                             .starts = StartsOf(row)},
                            a_.attended + row * s_.attended() + query * width, s_.attended(),
                            a_.log_sums + row * s_.heads + query * s_.positions, scratch, part);
}

void FusedBlock::Finish(const float* x, float* y, Rows rows, float* scratch) const {
  const int64_t at = rows.first * s_.dim, count = rows.count * s_.dim;
  float* const normed = scratch;
  float* const gated = normed + kRowBlock * s_.dim;
  float* const converted = gated + kRowBlock * s_.ff_dim;
  float* const middle = a_.middle + at;
  float* const gate_up = a_.gate_up + rows.first * 2 * s_.ff_dim;
  std::copy_n(x + at, count, middle);
  products_.Multiply(a_.attended + rows.first * s_.attended(), scratch_.weights[1],
                     {rows.count, s_.attended(), s_.dim, true}, middle, converted);
  kernels::RmsNormForward(middle, w_.mlp_norm, s_.norm_eps, rows.count, s_.dim, normed,
                          a_.inverse_mlp + rows.first);
  products_.Multiply(normed, scratch_.weights[2], {rows.count, s_.dim, 2 * s_.ff_dim}, gate_up,
                     converted);
  if (y == nullptr) return;
  kernels::SwiGluForward(gate_up, rows.count, s_.ff_dim, gated);
  std::copy_n(middle, count, y + at);
  products_.Multiply(gated, scratch_.weights[3], {rows.count, s_.ff_dim, s_.dim, true}, y + at,
                     converted);
}

void FusedBlock::Backward(const float* x, const float* dy, float* dx,
                          const BlockGradients& gradients) const {
  using From = RightSide::From;
  products_.Prepare({{From::kWeight, w_.qkv, scratch_.weights[0]},
                     {From::kWeight, w_.output, scratch_.weights[1]},
                     {From::kWeight, w_.gate_up, scratch_.weights[2]},
                     {From::kWeight, w_.down, scratch_.weights[3]}});
  ForTasks(s_.row_blocks(),
           [&](int64_t block, int thread) { MlpBackward(dy, block, Thread(thread)); });
  const int64_t heads = s_.sequences * s_.kv_heads;
  // Both halves compute the scores: seven products instead of five.
  const int64_t parts = AttentionParts(s_, at::get_num_threads(), 1.5);
  if (parts == 1) {
    ForTasks(heads, [&](int64_t head, int thread) {
      AttendBackward(head, AttentionHalf::kBoth, {}, Thread(thread));
    });
  } else {
    ForTasks(heads * parts * 2, [&](int64_t task, int thread) {
      const auto half = task % 2 == 0 ? AttentionHalf::kQueries : AttentionHalf::kKeys;
      AttendBackward(task / 2 / parts, half, {task / 2 % parts, parts}, Thread(thread));
    });
  }
  ForTasks(s_.row_blocks(),
           [&](int64_t block, int thread) { ProjectBackward(x, dx, block, Thread(thread)); });
  WeightGradients(dy, gradients);
  SumNorms(gradients);
}

// Backward from the block's output to the result of attention.
void FusedBlock::MlpBackward(const float* dy, int64_t block, float* scratch) const {
  const Rows rows = RowsOf(block);
  const int64_t at = rows.first * s_.dim;
  float* const dnormed = scratch;
  float* const converted = scratch + kRowBlock * s_.dim;
  float* const norms = scratch_.norms + block * NormsWidth(s_);
  float* const gated = scratch_.gated + rows.first * s_.ff_dim;
  float* const gate_up = a_.gate_up + rows.first * 2 * s_.ff_dim;
  std::fill_n(norms, NormsWidth(s_), 0.0f);
  products_.Multiply(dy + at, scratch_.weights[3], {rows.count, s_.dim, s_.ff_dim}, gated,
                     converted);
  kernels::SwiGluBackward(gated, gate_up, rows.count, s_.ff_dim, gate_up, gated);
  products_.Multiply(gate_up, scratch_.weights[2], {rows.count, 2 * s_.ff_dim, s_.dim}, dnormed,
                     converted);
  kernels::RmsNormBackward(dnormed, a_.middle + at, w_.mlp_norm, a_.inverse_mlp + rows.first,
                           rows.count, s_.dim,
                           {.residual = dy + at,
                            .dx = scratch_.dmiddle + at,
                            .dweight = norms + s_.dim,
                            .y = scratch_.normed_mlp + at});
  products_.Multiply(scratch_.dmiddle + at, scratch_.weights[1],
                     {rows.count, s_.dim, s_.attended()},
                     scratch_.dattended + rows.first * s_.attended(), converted);
}

void FusedBlock::AttendBackward(int64_t task, AttentionHalf half,
                                const kernels::AttentionPart& part, float* scratch) const {
  const kernels::AttentionShape group = GroupOf(s_);
  const int64_t row = task / s_.kv_heads * s_.positions, kv_head = task % s_.kv_heads;
  const int64_t query = kv_head * group.query_heads, width = s_.head_width;
  const int64_t q = query * width, k = (s_.heads + kv_head) * width,
                v = (s_.turned_heads() + kv_head) * width,
                out = row * s_.attended() + query * width;
  const float* const qkv = a_.qkv + row * s_.qkv();
  float* const dqkv = scratch_.dqkv + row * s_.qkv();
  const kernels::AttentionInputs in{
      .q = qkv + q, .k = qkv + k, .v = qkv + v, .stride = s_.qkv(), .starts = StartsOf(row)};
  const float* const log_sums = a_.log_sums + row * s_.heads + query * s_.positions;
  const kernels::AttentionGradients g{
      .dq = dqkv + q, .dk = dqkv + k, .dv = dqkv + v, .stride = s_.qkv()};
  const float *const y = a_.attended + out, *const dy = scratch_.dattended + out;
  switch (half) {
    case AttentionHalf::kBoth:
      return kernels::AttentionBackward(group, in, y, dy, s_.attended(), log_sums, g, scratch);
    case AttentionHalf::kQueries:
      return kernels::AttentionBackwardQueries(group, in, y, dy, s_.attended(), log_sums, g,
                                               scratch, part);
    case AttentionHalf::kKeys:
      return kernels::AttentionBackwardKeys(group, in, y, dy, s_.attended(), log_sums, g, scratch,
                                            part);
  }
}

// Backward through rotation and norm of q and k: from what attention read to what was projected.
void FusedBlock::TurnBack(Rows rows, float* norms) const {
  const int64_t width = s_.head_width, turned = s_.turned_heads();
  for (int64_t row = rows.first; row < rows.first + rows.count; ++row) {
    float* const heads = scratch_.dqkv + row * s_.qkv();
    const int64_t angle = row % s_.positions * width;
    kernels::RotateBack(heads, turned, width, w_.cos + angle, w_.sin + angle);
    if (!s_.qk_norm) continue;
    const float* const unnormed = a_.unnormed + row * turned * width;
    const float* const inverse = a_.inverse_qk + row * turned;
    const int64_t keys = s_.heads * width;
    kernels::RmsNormBackward(heads, unnormed, w_.query_norm, inverse, s_.heads, width,
                             {.dx = heads, .dweight = norms});
    kernels::RmsNormBackward(heads + keys, unnormed + keys, w_.key_norm, inverse + s_.heads,
                             s_.kv_heads, width, {.dx = heads + keys, .dweight = norms + width});
  }
}

// Backward from q, k and v to the block's input.
void FusedBlock::ProjectBackward(const float* x, float* dx, int64_t block, float* scratch) const {
  const Rows rows = RowsOf(block);
  const int64_t at = rows.first * s_.dim;
  float* const norms = scratch_.norms + block * NormsWidth(s_);
  TurnBack(rows, norms + 2 * s_.dim);
  products_.Multiply(scratch_.dqkv + rows.first * s_.qkv(), scratch_.weights[0],
                     {rows.count, s_.qkv(), s_.dim}, scratch, scratch + kRowBlock * s_.dim);
  kernels::RmsNormBackward(scratch, x + at, w_.input_norm, a_.inverse_input + rows.first,
                           rows.count, s_.dim,
                           {.residual = scratch_.dmiddle + at,
                            .dx = dx + at,
                            .dweight = norms,
                            .y = scratch_.normed_input + at});
}

void FusedBlock::WeightGradients(const float* dy, const BlockGradients& gradients) const {
  using From = RightSide::From;
  const int64_t rows = s_.rows();
  const GradientLeft lefts[] = {{scratch_.dqkv, rows, s_.qkv(), scratch_.pairs[0]},
                                {scratch_.dmiddle, rows, s_.dim, scratch_.pairs[1]},
                                {a_.gate_up, rows, 2 * s_.ff_dim, scratch_.pairs[2]},
                                {dy, rows, s_.dim, scratch_.pairs[3]}};
  const RightSide rights[] = {
      {From::kInput, {scratch_.normed_input, rows, s_.dim}, scratch_.inputs[0]},
      {From::kInput, {a_.attended, rows, s_.attended()}, scratch_.inputs[1]},
      {From::kInput, {scratch_.normed_mlp, rows, s_.dim}, scratch_.inputs[2]},
      {From::kInput, {scratch_.gated, rows, s_.ff_dim}, scratch_.inputs[3]}};
  ForGradientRows(products_, lefts, rights,
                  {gradients.qkv, gradients.output, gradients.gate_up, gradients.down});
}

void FusedBlock::SumNorms(const BlockGradients& gradients) const {
  const auto sum = [&](int64_t offset, int64_t width, const GradientSlot& slot) {
    if (!slot.add) std::fill_n(slot.data, width, 0.0f);
    for (int64_t block = 0; block < s_.row_blocks(); ++block) {
      const float* const part = scratch_.norms + block * NormsWidth(s_) + offset;
      for (int64_t i = 0; i < width; ++i) slot.data[i] += part[i];
    }
  };
  sum(0, s_.dim, gradients.input_norm);
  sum(s_.dim, s_.dim, gradients.mlp_norm);
  if (!s_.qk_norm) return;
  sum(2 * s_.dim, s_.head_width, gradients.query_norm);
  sum(2 * s_.dim + s_.head_width, s_.head_width, gradients.key_norm);
}

void ForGradientRows(const Products& products, absl::Span<const GradientLeft> lefts,
                     absl::Span<const RightSide> rights, absl::Span<const GradientSlot> slots) {
  products.Prepare(rights, lefts);
  int64_t narrowest = rights[0].columns();
  for (const RightSide& right : rights) narrowest = std::min(narrowest, right.columns());
  const auto rows_of = [&](size_t i) {
    return std::max<int64_t>(8, kRowBlock * narrowest / rights[i].columns() / 8 * 8);
  };
  const auto tasks_of = [&](size_t i) { return (lefts[i].columns + rows_of(i) - 1) / rows_of(i); };
  int64_t count = 0;
  for (size_t i = 0; i < lefts.size(); ++i) count += tasks_of(i);
  ForTasks(count, [&](int64_t task, int) {
    size_t i = 0;
    for (; task >= tasks_of(i); ++i) task -= tasks_of(i);
    const int64_t first = task * rows_of(i);
    products.MultiplyGradient(lefts[i], first, std::min(rows_of(i), lefts[i].columns - first),
                              rights[i], slots[i].add, slots[i].data);
  });
}

}  // namespace longhaul
