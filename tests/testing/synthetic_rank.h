// One rank of a synthetic pool: the ranks are threads of the test, each with a synthetic replica of
// its own, of which it reads and writes the blocks that it owns.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"
#include "common/base/status_macros.h"
#include "worker/collective/communicator.h"
#include "worker/replica/synthetic_replica.h"

namespace longhaul {

class SyntheticRank : public Replica {
 public:
  // Both outlive the object.
  SyntheticRank(SyntheticReplica* replica, Communicator* communicator)
      : replica_(replica), communicator_(communicator) {}

  const ModelLayout& layout() const override { return replica_->layout(); }
  int rank() const override { return communicator_->rank(); }
  int ranks() const override { return communicator_->size(); }
  absl::StatusOr<StepStats> Step(int64_t step) override {
    LH_RETURN_IF_ERROR(communicator_->Barrier(kPatient));
    return replica_->Step(step);
  }
  absl::Status Read(int unit, int64_t offset, absl::Span<float> out) override {
    return replica_->Read(unit, offset, out);
  }
  absl::Status Write(int unit, int64_t offset, absl::Span<const float> in) override {
    return replica_->Write(unit, offset, in);
  }
  // As with weights that are gathered before their use: nothing is sent.
  absl::Status Publish(absl::Span<const int> units) override { return absl::OkStatus(); }
  absl::StatusOr<EvalStats> Evaluate() override { return replica_->Evaluate(); }
  absl::StatusOr<std::vector<std::vector<int64_t>>> AllGather(
      absl::Span<const int64_t> values) override {
    const auto count = static_cast<int64_t>(values.size());
    std::vector<int64_t> all(ranks() * count);
    std::vector<Part> parts;
    for (int r = 0; r < ranks(); ++r) parts.push_back({r * BytesOf(count), BytesOf(count)});
    LH_RETURN_IF_ERROR(communicator_->AllGather(
        {reinterpret_cast<const std::byte*>(values.data()), values.size() * sizeof(int64_t)}, parts,
        {reinterpret_cast<std::byte*>(all.data()), all.size() * sizeof(int64_t)}, kPatient));
    std::vector<std::vector<int64_t>> of_ranks;
    for (auto first = all.begin(); first != all.end(); first += count)
      of_ranks.emplace_back(first, first + count);
    return of_ranks;
  }

 private:
  // Only a broken test waits so long.
  static constexpr CallOptions kPatient = {.timeout = absl::Minutes(1)};
  static int64_t BytesOf(int64_t values) { return values * static_cast<int64_t>(sizeof(int64_t)); }

  SyntheticReplica* const replica_;
  Communicator* const communicator_;
};

}  // namespace longhaul
