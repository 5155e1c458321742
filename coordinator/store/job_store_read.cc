// The methods of JobStore that read committed versions.
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_store.h"

namespace longhaul {
namespace {

absl::Span<const float> ValuesOf(const FragmentState& state, const BlockRange& range) {
  return absl::MakeConstSpan(state.theta)
      .subspan(range.first * kBlockElements, ElementsOf(range, state.elements()));
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
  std::shared_ptr<const DownlinkBytes> all;
  {
    absl::MutexLock store_lock(&mutex_);
    if (newest_downlink_.fragment == fragment && newest_downlink_.version == version) {
      all = newest_downlink_.bytes;
    }
  }
  return found->downlink.Read(*log_, std::move(all), blocks);
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
  for (const BlockRange& range : blocks) {
    const absl::Span<const float> values = ValuesOf(found->state, range);
    outer.values.insert(outer.values.end(), values.begin(), values.end());
  }
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
  for (const BlockRange& range : blocks) digester.Update(ValuesOf(state, range));
  return OuterDigest{state.version, digester.Value()};
}

}  // namespace longhaul
