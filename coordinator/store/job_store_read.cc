// The methods of JobStore that read committed versions.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_store.h"

namespace longhaul {
namespace {

// 64 KiB of fp32. So small a request is copied on its own and does not keep a whole fragment in
// memory.
constexpr int64_t kUnsharedBlocksMax = 128;

absl::Span<const float> ValuesOf(const FloatArray& theta, const BlockRange& range) {
  return absl::MakeConstSpan(theta).subspan(range.first * kBlockElements,
                                            ElementsOf(range, theta.size()));
}

}  // namespace

absl::StatusOr<int64_t> JobStore::Version(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  return found->committed.version;
}

absl::StatusOr<CommitRecord> JobStore::LastCommit(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  if (found->committed.version < 0) return NotSeeded(fragment);
  return found->committed;
}

absl::StatusOr<DownlinkBlocks> JobStore::ReadDownlink(int fragment, int64_t version,
                                                      absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (version != found->state.version || found->downlink.elements() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("fragment ", fragment, " is at version ", found->state.version,
                     found->downlink.elements() == 0 ? ", which has no downlink" : "",
                     "; the downlink of ", version, " was asked for"));
  }
  std::shared_ptr<const DownlinkBytes> newest = NewestDownlinkOf(fragment, version);
  const DownlinkIndex& index = found->downlink;
  if (BlocksIn(blocks) <= kUnsharedBlocksMax) return index.Read(*log_, std::move(newest), blocks);
  const auto make = [&]() -> absl::StatusOr<std::shared_ptr<const DownlinkBytes>> {
    if (newest != nullptr) return newest;
    return index.ReadAll(*log_);
  };
  LH_ASSIGN_OR_RETURN(const auto copy, found->downlink_copies.Get(version, make));
  // Owns the copy, and points to what that points to.
  return index.Read(*log_, std::shared_ptr<const DownlinkBytes>(copy, copy->get()), blocks);
}

std::shared_ptr<const DownlinkBytes> JobStore::NewestDownlinkOf(int fragment,
                                                                int64_t version) const {
  absl::MutexLock lock(&mutex_);
  const bool newest = newest_downlink_.fragment == fragment && newest_downlink_.version == version;
  return newest ? newest_downlink_.bytes : nullptr;
}

absl::StatusOr<OuterBlocks> JobStore::ReadOuter(int fragment,
                                                absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (found->state.version < 0) return NotSeeded(fragment);
  OuterBlocks outer;
  outer.version = found->state.version;
  const FloatArray& theta = found->state.theta;
  if (BlocksIn(blocks) > kUnsharedBlocksMax) {
    const auto make = [&theta]() -> absl::StatusOr<FloatArray> { return theta; };
    LH_ASSIGN_OR_RETURN(const std::shared_ptr<const FloatArray> copy,
                        found->outer_copies.Get(outer.version, make));
    for (const BlockRange& range : blocks) outer.values.push_back(ValuesOf(*copy, range));
    outer.owner = copy;
    return outer;
  }
  const auto copy = std::make_shared<std::vector<float>>();
  copy->reserve(BlocksIn(blocks) * kBlockElements);
  for (const BlockRange& range : blocks) {
    const absl::Span<const float> values = ValuesOf(theta, range);
    outer.values.emplace_back(copy->data() + copy->size(), values.size());
    copy->insert(copy->end(), values.begin(), values.end());
  }
  outer.owner = copy;
  return outer;
}

absl::StatusOr<OuterDigest> JobStore::DigestOuter(int fragment,
                                                  absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  const FragmentState& state = found->state;
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, state.elements()));
  if (state.version < 0) return NotSeeded(fragment);
  if (blocks.size() == 1 && ElementsOf(blocks[0], state.elements()) == state.elements()) {
    return OuterDigest{state.version, state.digest};
  }
  Digester digester;
  for (const BlockRange& range : blocks) digester.Update(ValuesOf(state.theta, range));
  return OuterDigest{state.version, digester.Value()};
}

}  // namespace longhaul
