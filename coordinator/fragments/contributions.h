// The index of contributions: which blocks have arrived, and where they lie in the log. A
// contribution is one incarnation's part in one round. It comes in parts (some blocks of one rank's
// stream). It counts when its parts hold every block of the fragment.
//
// Blocks are reserved before they go to the log, and confirmed after. So each block lies in the log
// at most once for each contribution, in whatever order streams bring and repeat it.
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
  RoundId round;
  std::string pool, incarnation;
  // A version is made by rounds of one kind.
  friend bool operator<(const ContributionKey& a, const ContributionKey& b) {
    return std::tie(a.round.fragment, a.round.version, a.pool, a.incarnation) <
           std::tie(b.round.fragment, b.round.version, b.pool, b.incarnation);
  }
};

// The contributions to one job. Thread-safe. Only Reserve blocks. Arguments `blocks` are disjoint,
// ascending and within the fragment.
class Contributions {
 public:
  // `fragment_blocks` is the number of blocks of each fragment.
  explicit Contributions(std::vector<int64_t> fragment_blocks);

  // Returns those of the blocks that have not arrived yet. They belong to the caller until Confirm
  // or Release. Waits while another stream has reserved some of the blocks (as long as its write to
  // the log takes).
  std::vector<BlockRange> Reserve(const ContributionKey& key,
                                  const std::vector<BlockRange>& blocks);
  // The blocks that Reserve returned are in the log.
  void Confirm(const ContributionKey& key, const std::vector<BlockRange>& blocks, StoredPart part);
  // The blocks that Reserve returned could not be written.
  void Release(const ContributionKey& key, const std::vector<BlockRange>& blocks);

  // This part of the contribution is damaged in the log: its blocks have not arrived.
  void Withdraw(const ContributionKey& key, uint64_t sequence);

  // The blocks that have arrived: disjoint, ascending, neighbours merged.
  std::vector<BlockRange> Blocks(const ContributionKey& key) const;
  bool Whole(const ContributionKey& key) const;
  // The parts of a complete contribution, in the order of arrival. Empty if it is not complete.
  std::vector<StoredPart> Parts(const ContributionKey& key) const;
  // The complete contributions to this round.
  std::vector<ContributionKey> WholeOf(int fragment, int64_t version) const;

  // Forgets the contributions to rounds of the fragment up to this one.
  void Forget(const RoundId& round);

 private:
  struct Arrival {
    // Neighbours are merged.
    std::vector<BlockRange> here, reserved;
    std::vector<StoredPart> parts;
  };
  bool WholeLocked(const ContributionKey& key, const Arrival& arrival) const {
    return arrival.here == std::vector<BlockRange>{{0, fragment_blocks_[key.round.fragment]}};
  }

  const std::vector<int64_t> fragment_blocks_;
  mutable absl::Mutex mutex_;
  std::map<ContributionKey, Arrival> arrivals_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace longhaul::coordinator
