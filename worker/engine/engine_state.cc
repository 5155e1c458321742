// The engine's state between two steps: reading it, writing it, and sending it to all ranks.
#include <algorithm>
#include <utility>
#include <vector>

#include "ATen/ops/from_blob.h"
#include "ATen/ops/zeros.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "worker/engine/engine.h"
#include "worker/engine/torch_status.h"
#include "worker/engine/unit_gather.h"

namespace longhaul {
namespace {

at::Tensor OnHost(const float* data, int64_t size) {
  return at::from_blob(const_cast<float*>(data), {size}, c10::TensorOptions(at::kFloat));
}

}  // namespace

absl::Status Engine::Read(int unit, int64_t offset, absl::Span<float> out) const {
  return CatchTorch("reading parameters", [&]() -> absl::Status {
    LH_RETURN_IF_ERROR(CheckSettled());
    LH_RETURN_IF_ERROR(AwaitOwnWork("reading parameters"));
    const auto size = static_cast<int64_t>(out.size());
    OnHost(out.data(), size).copy_(weights_.Master(unit, {offset, size}));
    return absl::OkStatus();
  });
}

absl::Status Engine::Write(int unit, int64_t offset, absl::Span<const float> in) {
  return CatchTorch("writing parameters", [&]() -> absl::Status {
    LH_RETURN_IF_ERROR(CheckSettled());
    const auto size = static_cast<int64_t>(in.size());
    LH_RETURN_IF_ERROR(BeginWrite(unit, {offset, size}));
    weights_.Master(unit, {offset, size}).copy_(OnHost(in.data(), size));
    return absl::OkStatus();
  });
}

const float* Engine::DeviceParameters(int unit, int64_t offset) const {
  const bool there = device_.is_cuda() && interleaved_ == nullptr;
  return there ? weights_.Master(unit, {offset, 0}).const_data_ptr<float>() : nullptr;
}

absl::Status Engine::Publish(absl::Span<const int> units) {
  LH_RETURN_IF_ERROR(CheckSettled());
  StreamQueue::Ticket last = 0;
  for (int unit : units) {
    LH_RETURN_IF_ERROR(BeginWrite(unit, {0, layout().units[unit].elements}));
    last = queue_->Submit(absl::StrCat("publishing ", layout().units[unit].name),
                          [this, unit]() -> absl::Status {
                            LH_RETURN_IF_ERROR(weights_.SpreadMasters(unit));
                            return weights_.Refresh(unit);
                          });
  }
  return queue_->Wait(last);
}

// Calls visit(subgroup, first, count, place) for each subgroup that keeps the state and overlaps
// the range: its elements [first, first + count) lie in the range, the first of them at `place` in
// the unit.
template <typename Visit>
void Engine::ForState(OptimizerState state, int unit, const ElementRange& range,
                      Visit&& visit) const {
  for (int i = plan_.first_subgroup(unit); i < plan_.first_subgroup(unit + 1); ++i) {
    const ElementRange& held = plan_.subgroups()[i].range;
    const int64_t first = std::max(held.first, range.first);
    const int64_t end = std::min(held.end(), range.end());
    if (first >= end || !optimizer_->Keeps(state, i)) continue;
    visit(i, ElementRange{first - held.first, end - first}, first);
  }
}

std::vector<ElementRange> Engine::KeptRanges(OptimizerState state, int unit) const {
  const ElementRange& owned = plan_.owned(unit);
  std::vector<ElementRange> kept;
  if (owned.count == 0) return kept;
  if (state == OptimizerState::kGradientError) {
    if (reduction_.has_feedback()) kept.push_back(owned);
    return kept;
  }
  ForState(state, unit, owned, [&](int, const ElementRange& part, int64_t first) {
    if (!kept.empty() && kept.back().end() == first) {
      kept.back().count += part.count;
    } else {
      kept.push_back({first, part.count});
    }
  });
  return kept;
}

absl::Status Engine::ReadState(OptimizerState state, int unit, int64_t offset,
                               absl::Span<float> out) const {
  return CatchTorch("reading the optimizer's state", [&]() -> absl::Status {
    LH_RETURN_IF_ERROR(CheckSettled());
    std::fill(out.begin(), out.end(), 0.0f);
    if (state == OptimizerState::kGradientError) {
      if (!reduction_.has_feedback()) return absl::OkStatus();
      const at::Tensor& owed = reduction_.owed(unit);
      if (!owed.defined())
        return absl::FailedPreconditionError("the error feedback of gradients was not collected");
      const auto size = static_cast<int64_t>(out.size());
      OnHost(out.data(), size).copy_(owed.narrow(0, offset - plan_.owned(unit).first, size));
      return absl::OkStatus();
    }
    absl::Status read;
    ForState(state, unit, {offset, static_cast<int64_t>(out.size())},
             [&](int subgroup, const ElementRange& part, int64_t first) {
               if (!read.ok()) return;
               read = optimizer_->ReadState(state, subgroup, part.first,
                                            out.subspan(first - offset, part.count));
             });
    return read;
  });
}

absl::Status Engine::WriteState(OptimizerState state, int unit, int64_t offset,
                                absl::Span<const float> in) {
  return CatchTorch("writing the optimizer's state", [&]() -> absl::Status {
    LH_RETURN_IF_ERROR(CheckSettled());
    if (state == OptimizerState::kGradientError) {
      if (!reduction_.has_feedback()) return absl::OkStatus();
      const ElementRange owned = plan_.owned(unit);
      at::Tensor& owed = reduction_.owed(unit);
      if (!owed.defined()) owed = at::zeros({owned.count}, at::kFloat);
      const auto size = static_cast<int64_t>(in.size());
      owed.narrow(0, offset - owned.first, size).copy_(OnHost(in.data(), size));
      return absl::OkStatus();
    }
    absl::Status written;
    ForState(state, unit, {offset, static_cast<int64_t>(in.size())},
             [&](int subgroup, const ElementRange& part, int64_t first) {
               if (!written.ok()) return;
               written = optimizer_->WriteState(state, subgroup, part.first,
                                                in.subspan(first - offset, part.count));
             });
    return written;
  });
}

absl::Status Engine::PublishState(OptimizerState state, int unit) {
  const Level level = plan_.map().optimizer;
  const ElementRange held = plan_.Held(unit, level);
  std::vector<float> values(held.count);
  LH_RETURN_IF_ERROR(ReadState(state, unit, held.first, absl::MakeSpan(values)));
  const at::Tensor flat = OnHost(values.data(), held.count).to(device_);
  LH_RETURN_IF_ERROR(
      GatherFloats(*exchange_, plan_, unit, flat, held.first, Level::kPool, level, Use::kRefresh));
  OnHost(values.data(), held.count).copy_(flat);
  return WriteState(state, unit, held.first, values);
}

OptimizerPhase Engine::phase() const {
  OptimizerPhase phase{.updates = optimizer_->updates(), .skips_in_a_row = skips_in_a_row_};
  if (momentum_ != nullptr) {
    phase.frozen_at = momentum_->frozen_at();
    phase.last_look = momentum_->last_look();
  }
  return phase;
}

absl::Span<float> Engine::FeedbackOf(Feedback end, int unit) {
  return momentum_ == nullptr ? absl::Span<float>() : momentum_->feedback(end, unit);
}

absl::Status Engine::CollectErrorFeedback() {
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    LH_RETURN_IF_ERROR(
        RunQueued(absl::StrCat("collecting the error feedback of ", layout().units[unit].name),
                  [this, unit] { return reduction_.CollectErrors(unit); }));
  }
  return absl::OkStatus();
}

absl::Status Engine::PublishState(const OptimizerPhase& phase) {
  for (int unit = 0; unit < static_cast<int>(layout().units.size()); ++unit) {
    for (const OptimizerState state : kOptimizerStates) {
      LH_RETURN_IF_ERROR(
          RunQueued(absl::StrCat("publishing the optimizer's state of ", layout().units[unit].name),
                    [this, state, unit] { return PublishState(state, unit); }));
    }
    LH_RETURN_IF_ERROR(
        RunQueued(absl::StrCat("restoring the error feedback of ", layout().units[unit].name),
                  [this, unit] { return reduction_.SpreadErrors(unit); }));
  }
  optimizer_->SetUpdates(phase.updates);
  skips_in_a_row_ = phase.skips_in_a_row;
  if (momentum_ != nullptr) momentum_->Resume(phase.frozen_at, phase.last_look);
  return absl::OkStatus();
}

StateBytes Engine::state_bytes() const {
  const ComputeWeights::Bytes weights = weights_.kept_bytes();
  return {.weights = weights.weights,
          .secondary = weights.secondary,
          .gradients = gradients_.kept_bytes(),
          .optimizer = weights.masters + optimizer_->state_bytes(),
          .error_feedback =
              reduction_.kept_bytes() + (momentum_ != nullptr ? momentum_->kept_bytes() : 0),
          .host = weights.host + (interleaved_ == nullptr ? 0 : interleaved_->bytes().host)};
}

}  // namespace longhaul
