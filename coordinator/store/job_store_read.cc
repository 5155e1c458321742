// The methods of JobStore that read committed versions.
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_store.h"

namespace longhaul {
namespace {

// 64 KiB. So small a request is copied on its own and does not keep a whole fragment in memory.
constexpr int64_t kUnsharedBlocksMax = 128;
// For each fragment. A stream keeps the copy that it began with, also when there are newer ones.
constexpr size_t kSharedCopiesMax = 4;

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
  std::shared_ptr<const DownlinkBytes> all;
  {
    absl::MutexLock store_lock(&mutex_);
    if (newest_downlink_.fragment == fragment && newest_downlink_.version == version) {
      all = newest_downlink_.bytes;
    }
  }
  return found->downlink.Read(*log_, std::move(all), blocks);
}

absl::StatusOr<std::shared_ptr<const JobStore::OuterCopy>> JobStore::Share(
    const Fragment& fragment) {
  absl::MutexLock lock(&fragment.copies_mutex);
  std::vector<std::weak_ptr<const OuterCopy>>& copies = fragment.copies;
  std::erase_if(copies, [](const auto& copy) { return copy.expired(); });
  if (!copies.empty()) {
    std::shared_ptr<const OuterCopy> newest = copies.back().lock();
    if (newest != nullptr && newest->version == fragment.state.version) return newest;
  }
  if (copies.size() >= kSharedCopiesMax) {
    return absl::UnavailableError(
        absl::StrCat("slow readers still hold the parameters of ", copies.size(), " versions"));
  }
  const auto copy =
      std::make_shared<const OuterCopy>(OuterCopy{fragment.state.version, fragment.state.theta});
  copies.push_back(copy);
  return copy;
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
  int64_t count = 0;
  for (const BlockRange& range : blocks) count += range.count;
  if (count > kUnsharedBlocksMax) {
    LH_ASSIGN_OR_RETURN(const std::shared_ptr<const OuterCopy> copy, Share(*found));
    for (const BlockRange& range : blocks) outer.values.push_back(ValuesOf(copy->values, range));
    outer.owner = copy;
    return outer;
  }
  const auto copy = std::make_shared<std::vector<float>>();
  copy->reserve(count * kBlockElements);
  for (const BlockRange& range : blocks) {
    const absl::Span<const float> values = ValuesOf(found->state.theta, range);
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
