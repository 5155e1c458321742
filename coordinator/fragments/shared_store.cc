#include "coordinator/fragments/shared_store.h"

#include <cstdint>

#include "common/base/checked_math.h"
#include "common/layout/fragment_layout.h"

namespace longhaul::coordinator {
namespace {

std::vector<int64_t> BlockCounts(const JobStoreOptions& options) {
  std::vector<int64_t> blocks;
  for (const int64_t elements : options.fragment_elements)
    blocks.push_back(CeilDiv(elements, kBlockElements));
  return blocks;
}

}  // namespace

SharedStore::SharedStore(std::unique_ptr<JobStore> store)
    : store_(std::move(store)), contributions_(BlockCounts(store_->options())) {
  for (StoredPart& part : store_->TakePending()) {
    const PartInfo& info = part.info;
    const ContributionKey key{info.round, info.pool, info.incarnation};
    const std::vector<BlockRange> blocks = contributions_.Reserve(key, BlocksOf(info.segments));
    contributions_.Confirm(key, blocks, std::move(part));
  }
}

SharedStore::~SharedStore() {
  store_.reset();
  if (gone_) gone_();
}

void SharedStore::Close(absl::AnyInvocable<void()> gone) {
  gone_ = std::move(gone);
  closing_ = true;
}

}  // namespace longhaul::coordinator
