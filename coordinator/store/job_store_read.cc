// The methods of JobStore that read committed versions.
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "coordinator/store/job_store.h"

namespace longhaul {
namespace {

absl::Span<const float> ValuesOf(const FloatArray& theta, const BlockRange& range) {
  return absl::MakeConstSpan(theta).subspan(range.first * kBlockElements,
                                            ElementsOf(range, theta.size()));
}

absl::Status NotThere(int fragment, int64_t wanted, int64_t have) {
  return absl::FailedPreconditionError(absl::StrCat("fragment ", fragment, " is at version ", have,
                                                    "; version ", wanted, " was asked for"));
}

}  // namespace

absl::StatusOr<int64_t> JobStore::Version(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  return found->committed.round.version;
}

absl::StatusOr<CommitRecord> JobStore::LastCommit(int fragment) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::MutexLock lock(&mutex_);
  if (found->committed.round.version < 0) return NotSeeded(fragment);
  return found->committed;
}

absl::StatusOr<CodedBlocks> JobStore::ReadDownlink(int fragment, int64_t version,
                                                   absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (version != found->state.version) return NotThere(fragment, version, found->state.version);
  if (found->downlink.elements() == 0) {
    return absl::FailedPreconditionError(
        absl::StrCat("version ", version, " of fragment ", fragment, " has no downlink"));
  }
  {
    // While these bytes are copied, no round takes their memory.
    absl::ReaderMutexLock newest_lock(&newest_mutex_);
    if (newest_downlink_.fragment == fragment && newest_downlink_.version == version)
      return found->downlink.Read(*log_, newest_downlink_.bytes.get(), blocks);
  }
  return found->downlink.Read(*log_, nullptr, blocks);
}

absl::StatusOr<CodedBlocks> JobStore::ReadOuter(int fragment, int64_t version,
                                                absl::Span<const BlockRange> blocks) const {
  LH_ASSIGN_OR_RETURN(const Fragment* found, FindFragment(fragment));
  absl::ReaderMutexLock lock(&found->mutex);
  LH_RETURN_IF_ERROR(log_->status());
  const FloatArray& theta = found->state.theta;
  LH_RETURN_IF_ERROR(CheckBlocks(blocks, found->state.elements()));
  if (found->state.version < 0) return NotSeeded(fragment);
  if (version != found->state.version) return NotThere(fragment, version, found->state.version);
  const std::vector<BlockRange> ranges(blocks.begin(), blocks.end());
  CodedBlocks read = {CutSegments(ranges, theta.size()),
                      AlignedBuffer::Mapped(ElementsOf(ranges, theta.size()) * sizeof(float))};
  absl::Span<uint8_t> room = read.payload.span();
  for (const BlockRange& range : blocks) {
    const absl::string_view bytes = BytesOf(ValuesOf(theta, range));
    std::memcpy(room.data(), bytes.data(), bytes.size());
    room.remove_prefix(bytes.size());
  }
  return read;
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
    return OuterDigest{state.version, state.digest, found->downlink.elements() > 0};
  }
  Digester digester;
  for (const BlockRange& range : blocks) digester.Update(ValuesOf(state.theta, range));
  return OuterDigest{state.version, digester.Value(), found->downlink.elements() > 0};
}

}  // namespace longhaul
