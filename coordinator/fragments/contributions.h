// Which blocks of which contributions have arrived, and where they lie in the log: the one index of
// them. A contribution is one incarnation's part in one
// round; it comes in parts (some blocks of one rank's stream) and counts when they hold every
// block of the fragment.
//
// Blocks are reserved before they go to the log and confirmed after, so that no block lies in the
// log twice under one contribution, whatever repeated streams bring and in which order.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/layout/fragment_layout.h"
#include "coordinator/store/round_records.h"

namespace longhaul::coordinator {

struct ContributionKey {
  int fragment = 0;
  int64_t version = 0;
  std::string pool, incarnation;
  friend bool operator<(const ContributionKey& a, const ContributionKey& b) {
    return std::tie(a.fragment, a.version, a.pool, a.incarnation) <
           std::tie(b.fragment, b.version, b.pool, b.incarnation);
  }
};

// Of one job. Thread-safe; only Reserve blocks. `blocks`: disjoint, ascending, within the fragment.
class Contributions {
 public:
  // `fragment_blocks`: of each fragment.
  explicit Contributions(std::vector<int64_t> fragment_blocks);

  // Those of the blocks that are not here yet: they are the caller's, until Confirm or Release.
  // Waits while another stream has reserved some of them (for the length of its write to the log).
  std::vector<BlockRange> Reserve(const ContributionKey& key,
                                  const std::vector<BlockRange>& blocks);
  // What Reserve gave lies in the log.
  void Confirm(const ContributionKey& key, const std::vector<BlockRange>& blocks, StoredPart part);
  // It does not.
  void Release(const ContributionKey& key, const std::vector<BlockRange>& blocks);

  // The blocks that are here: disjoint, ascending, neighbours merged.
  std::vector<BlockRange> Blocks(const ContributionKey& key) const;
  bool Whole(const ContributionKey& key) const;
  // Of a whole contribution, in the order of arrival; empty otherwise.
  std::vector<StoredPart> Parts(const ContributionKey& key) const;
  // Pools and incarnations whose contribution to this round is whole.
  std::vector<ContributionKey> WholeOf(int fragment, int64_t version) const;

  // Forgets the contributions to rounds of the fragment up to this version.
  void Forget(int fragment, int64_t version);

 private:
  struct Arrival {
    std::vector<BlockRange> here, reserved;  // Merged.
    std::vector<StoredPart> parts;
  };
  bool WholeLocked(const ContributionKey& key, const Arrival& arrival) const {
    return arrival.here == std::vector<BlockRange>{{0, fragment_blocks_[key.fragment]}};
  }

  const std::vector<int64_t> fragment_blocks_;
  mutable absl::Mutex mutex_;
  std::map<ContributionKey, Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
